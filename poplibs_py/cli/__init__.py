"""The command line: ``poplibs-py --version``, ``poplibs-py info | plan | bench | report | randtest``.

Each command is a module of this package with ``add_parser(subparsers)``, which sets the function to run.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import PoplibsError
from ..lazy import submodules_on_demand

__all__ = ["main"]

__getattr__, __dir__ = submodules_on_demand(__name__)

INTERRUPTED = 130
"""The exit status after Control-C, as shells have it."""

_DESCRIPTION = "Dense and block-sparse products, number formats, random numbers and plans: PopLibs' kernels for Python."
COMMANDS = ("info", "plan", "bench", "report", "randtest")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the program's name; those of the process by default.
    """
    parser = argparse.ArgumentParser(prog="poplibs-py", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        importlib.import_module(f".{command}", __name__).add_parser(subparsers)
    words = argparse.Namespace(words=list(sys.argv[1:] if argv is None else argv))
    arguments = parser.parse_args(argv, words)
    try:
        status: int = arguments.run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a reader that has gone is no surprise
    except PoplibsError as error:
        print(f"poplibs-py {arguments.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"poplibs-py {arguments.command}: {error}", file=sys.stderr)
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more as it ends
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return status
