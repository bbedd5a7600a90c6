"""``with poplibs_py.profile() as report``: what ran inside, by which plan and kernel, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..program.record import Listener, Run, start, stop
from ..target import Target, resolve_target

__all__ = ["Profile", "profile"]


class Profile:
    """What a profiled block ran.

    Attributes
    ----------
    runs : list of Run
        One for each run, in the order in which they ended.
    target : Target or None
        The machine for operations that name none, where one was named.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.runs: list[Run] = []
        self.target = target

    @property
    def seconds(self) -> float:
        """Wall time of all runs."""
        return sum(run.seconds for run in self.runs)

    def summary(self) -> str:
        """Return a table of the runs, and for modelled machines what the plan says, bytes and balance."""
        if not self.runs:
            return "nothing ran"
        names = [f"{run.op} {run.what}" for run in self.runs]
        first, second = max(map(len, names)) + 2, max(len(run.kernel) for run in self.runs) + 2
        lines = [f"{'operation':<{first}}{'kernel':<{second}}{'ms':>10}"]
        for name, run in zip(names, self.runs, strict=True):
            lines.append(f"{name:<{first}}{run.kernel:<{second}}{run.seconds * 1e3:>10.3f}")
            lines += [f"  {line}" for line in _details(run, self.target)]
        lines.append(f"{'total':<{first + second}}{self.seconds * 1e3:>10.3f}")
        return "\n".join(lines)

    __str__ = summary


def _details(run: Run, target: Target | None) -> Iterator[str]:
    """What a modelled machine's run has to say besides, or why it was none."""
    for phase, seconds in run.phases.items():
        yield f"{phase:<20}{seconds * 1e3:>10.3f} ms here"
    if run.lacking and target is not None:
        yield f"on this CPU, not on {target.name}: {run.lacking}"
    if run.tile_bytes is None:
        return
    plan: Any = run.plan
    yield from (line for line in str(plan).splitlines() if line)
    work = run.tile_bytes if run.tile_macs is None else run.tile_macs
    used = work > 0
    if run.tile_macs is not None:  # of an elementwise operation the plan tells it
        yield f"laid out here: at most {run.tile_bytes.max():,} bytes on a tile; modelled: {plan.temp_bytes:,}"
    yield f"tiles receive {run.exchanged_bytes:,} bytes"
    yield f"tiles: {np.count_nonzero(used)} of {len(used)} work, balance {balance(work[used]):.1%}"


def balance(work: np.ndarray[Any, Any]) -> float:
    """Mean over most: 1 where every tile that works does the same.

    Examples
    --------
    >>> import numpy as np
    >>> balance(np.array([3, 3, 0]))
    0.6666666666666666
    """
    return float(work.mean() / work.max()) if work.size and work.max() else 1.0


@contextmanager
def profile(target: Target | str | None = None) -> Iterator[Profile]:
    """Collect every operation that runs inside the block, in any thread.

    That is dense and block-sparse products, operands prepared for them, gradients, softmax, elementwise operations,
    casts, and random numbers of the counter stream.

    Parameters
    ----------
    target : Target or str, optional
        The machine for operations inside that name none, for example ``"gc200"``; by default this CPU. Dense products
        run there, and those elementwise operations and casts that the machine has vertices for; everything else runs
        on this CPU, and the summary says so.

    Yields
    ------
    Profile
        Filled as operations run.

    Examples
    --------
    >>> import numpy as np
    >>> import poplibs_py
    >>> from poplibs_py import poplin
    >>> a = np.ones((64, 64), np.float16)
    >>> with poplibs_py.profile(target="gc200") as report:
    ...     c = poplin.matmul(a, a)
    >>> report.runs[0].plan.cycles, report.runs[0].op
    (641, 'poplin.matmul')
    """
    collected = Profile(None if target is None else resolve_target(target))
    listener = Listener(collected.runs.append, collected.target)
    start(listener)
    try:
        yield collected
    finally:
        stop(listener)
