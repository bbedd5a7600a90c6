"""Files of problems, one a line: each is planned, and printed as a table or as a JSON object."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial

from ..errors import PoplibsError, bad_argument
from ..planner import preplan
from .spec import spec_lines

Planner = Callable[[str], str]


def add_specs(kinds: argparse._SubParsersAction[argparse.ArgumentParser], name: str, what: str, example: str,
              fields: Planner, table: Planner) -> None:
    """Add a command that plans the lines of a file.

    Parameters
    ----------
    kinds
        What to add it to.
    name, what, example : str
        The command, its help, and a line for example.
    fields, table : callable
        Plan a line, and return its JSON object, or its table, or raise why there is none; functions of a module, so
        that other processes find them.
    """
    specs = kinds.add_parser(name, help=what)
    specs.add_argument("--spec-file", required=True,
                       help=f"one problem a line, such as '{example}'; - for standard input")
    specs.add_argument("--jsonl", action="store_true", help="print one JSON object a line instead of tables")
    specs.add_argument("--jobs", type=int, default=None, help="processes to plan with (default: one per CPU)")
    specs.set_defaults(run=partial(_run, fields, table))


def _run(fields: Planner, table: Planner, arguments: argparse.Namespace) -> int:
    if arguments.jobs is not None and arguments.jobs < 1:
        raise bad_argument("--jobs", arguments.jobs, "1 or more")
    if arguments.spec_file == "-":
        specs = list(spec_lines(sys.stdin))
    else:
        try:
            with open(arguments.spec_file) as file:
                specs = list(spec_lines(file))
        except (OSError, UnicodeDecodeError) as error:
            raise bad_argument("--spec-file", arguments.spec_file, f"a text file that can be read ({error})") from error
    planner = partial(_answer, fields if arguments.jsonl else table)
    answers = preplan([spec for _, spec in specs], planner, jobs=arguments.jobs)
    source = "standard input" if arguments.spec_file == "-" else arguments.spec_file
    failures = 0
    for (number, spec), (planned, why) in zip(specs, answers, strict=True):
        failures += planned is None
        said = f"{source}:{number}: {why}"
        if arguments.jsonl:
            print(planned or json.dumps({"spec": spec, "error": said}, separators=(",", ":")))
        else:
            print(f"{spec}\n\n{planned or said}\n")
    return 1 if specs and failures == len(specs) else 0


def _answer(planner: Planner, spec: str) -> tuple[str | None, str]:
    """What is printed of a plan, or None and why there is none."""
    try:
        return planner(spec), ""
    except PoplibsError as error:
        return None, str(error)
