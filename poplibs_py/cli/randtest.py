"""``poplibs-py randtest``: pipe the random bits to PractRand, or to dieharder, and show the verdict."""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from .. import poprand
from ..errors import UnsupportedError
from ..poprand._workers import interleaved
from ..poprand.hardware import worker_states
from ..target import Target

_SOURCES = ("counter", "generator", "workers")
_WORDS = 1 << 18


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    parser = subparsers.add_parser("randtest", help="test the random bits with PractRand or dieharder (takes long)")
    parser.add_argument("--source", choices=_SOURCES, default="counter",
                        help="the counter stream, one generator, or the 1472 x 6 workers of a GC200 in turn, which "
                             "PractRand rejects at 128 MB: states of two workers of a tile differ by the same bits on "
                             "every tile")
    parser.add_argument("--seed", type=int, default=42, help="64-bit seed")
    parser.add_argument("--tool", choices=("practrand", "dieharder"), help="by default the first that is installed")
    parser.add_argument("--test", type=int, help="one of dieharder's tests, by number; all by default")
    parser.add_argument("--bytes", default="32GB", help="how much PractRand reads, for example 1TB")
    parser.set_defaults(run=_run)


def blocks(source: str, seed: int) -> Iterator[bytes]:
    """Yield a source's bits without end, 2 MiB at a time.

    Parameters
    ----------
    source : {"counter", "generator", "workers"}
        The counter stream; the outputs of one `Xoroshiro128aox`; those of all workers of a GC200 seeded by PopLibs'
        rule, one word of each in turn.
    seed : int
        64 bits.
    """
    if source == "counter":
        for offset in itertools.count(0, _WORDS):
            yield poprand.bits(_WORDS, dtype=np.uint64, seed=seed, offset=offset).tobytes()
    elif source == "generator":
        generator = poprand.Xoroshiro128aox(seed)
        while True:
            yield generator.random_raw(_WORDS).tobytes()
    else:
        states = worker_states(Target.gc200(), seed, 0)
        while True:
            yield interleaved(states, max(1, _WORDS // (states.shape[0] * states.shape[1]))).tobytes()


def _command(arguments: argparse.Namespace) -> list[str]:
    tools = {
        "practrand": ["RNG_test", "stdin64", "-tlmax", arguments.bytes],
        "dieharder": ["dieharder", "-g", "200", *(["-a"] if arguments.test is None else ["-d", str(arguments.test)])]}
    wanted = [arguments.tool] if arguments.tool else list(tools)
    for name in wanted:
        if shutil.which(tools[name][0]):
            return tools[name]
    raise UnsupportedError(f"--tool: got {' or '.join(wanted)}, which is not on the path; allowed: practrand, whose "
                           "RNG_test is built from its source, and dieharder, a package of Debian")


def _run(arguments: argparse.Namespace) -> int:
    command = _command(arguments)
    print(f"{' '.join(command)} < {arguments.source}, seed {arguments.seed}", flush=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stdout) as tool:
        assert tool.stdin is not None
        try:
            for block in blocks(arguments.source, arguments.seed):
                tool.stdin.write(block)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the tool has read enough
    return tool.returncode
