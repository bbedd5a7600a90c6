"""``with poplibs_py.profile() as report``: what ran inside, by which plan and kernel, and what it cost."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from ..checks import flag, instance
from ..config import settings
from ..errors import InvalidArgumentError, bad_argument, described
from ..files import file_path, replacing
from ..log import get
from ..program.record import Listener, Run, start, stop
from ..target import Target, TargetLike, resolve_target

if TYPE_CHECKING:
    from .comparison import Comparison
    from .records import Report

__all__ = ["Profile", "profile"]


class Profile:
    """What a profiled block ran.

    ``print(profile)`` shows its summary. `data` is all of it as plain values, and what `summary`, `save` and `compare`
    use.

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
        self._began = perf_counter()
        self._data: Report | None = None
        self._held = 0

    @property
    def seconds(self) -> float:
        """Wall time of all runs."""
        return sum(run.seconds for run in self.runs)

    @property
    def data(self) -> Report:
        """What ran until now, as plain values.

        Where products ran on this CPU its peak is measured, once in a process: this takes about a second.
        """
        if self._data is None or len(self.runs) != self._held:
            from .collect import collected  # a program that profiles nothing pays for none of this

            self._data, self._held = collected(tuple(self.runs), self._began, self.target), len(self.runs)
        return self._data

    def summary(self, *, details: bool = False) -> str:
        """Return tables for a terminal: operations by time, and what stands out.

        Parameters
        ----------
        details : bool, optional
            Add each operation's phases, decisions and reasons.
        """
        from .terminal import summary_of

        return summary_of(self.data, details=flag("details", details))

    def __str__(self) -> str:
        return self.summary()

    def compare(self, before: Profile) -> Comparison:
        """Return this profile beside another, which came before it; ``print`` shows it.

        Parameters
        ----------
        before : Profile
        """
        from .comparison import Comparison

        instance("before", before, Profile, "a Profile")
        return Comparison(before.data, self.data)

    def save(self, path: str | os.PathLike[str], *, against: Profile | None = None) -> None:
        """Write the report to a file; its ending says how.

        Parameters
        ----------
        path : str or path
            ``.html``: a page that needs nothing else. ``.json``: what `load` reads. ``.perfetto.json``: a trace for
            Perfetto (https://ui.perfetto.dev) and Chrome.
        against : Profile, optional
            Another, which the page compares this one with.
        """
        name = file_path(path, _ENDINGS).name.lower()
        if against is not None:
            instance("against", against, Profile, "a Profile")
        ending = next(ending for ending in _ENDINGS if name.endswith(ending))
        with replacing(path) as file:
            file.write(self._text(ending, against).encode())

    def _text(self, ending: str, against: Profile | None) -> str:
        from .sheet import page_of
        from .trace import trace_json

        if ending == ".html":
            return page_of(self.data, None if against is None else against.data)
        return self.data.to_json() if ending == ".json" else trace_json(self.data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Read what was saved as ``.json``. It has no `runs`, which do not outlive their process.

        Raises
        ------
        InvalidArgumentError
            If the file holds anything else.
        OSError
            If it cannot be read.
        """
        from .records import Report

        made, file = cls(), file_path(path)
        try:
            made._data = Report.from_json(file.read_text("utf-8"))
        except (InvalidArgumentError, UnicodeDecodeError) as error:
            reason = described(str(error.__cause__ or error))
            raise bad_argument("path", str(path), f"a report saved as .json ({reason})") from error
        return made


_ENDINGS = ".perfetto.json", ".json", ".html"


def _write_at_exit(folder: str) -> None:
    """Profile this process from now on, and write its report where it ends, if anything ran.

    A process that was forked writes one of its own, with its number in the names.
    """
    from . import collect, sheet, trace  # noqa: F401 -- what they import cannot be imported when a process ends

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = "the name of a folder that can be made"
        raise bad_argument("autoReport.directory", f"{folder} ({error.strerror})", allowed) from None
    collected = Profile()
    listener, first = Listener(collected.runs.append), os.getpid()
    start(listener)

    def write() -> None:
        stop(listener)
        name = "report" if os.getpid() == first else f"report-{os.getpid()}"
        if not collected.runs:
            return
        try:
            for ending in _ENDINGS:
                collected.save(Path(folder) / f"{name}{ending}")
        except OSError as error:
            get("report").error("no report in %s: %s", folder, error)

    atexit.register(write)


@contextmanager
def profile(target: TargetLike = None) -> Iterator[Profile]:
    """Collect every operation that runs inside the block, in any thread: what ran and what it cost.

    That is dense and block-sparse products, operands prepared for them, gradients, softmax, elementwise operations,
    casts, and random numbers of the counter stream.

    Parameters
    ----------
    target : Target or str, optional
        The machine for operations inside that name none, for example ``"gc200"``; by default this CPU. Operations
        run there that the machine has vertices for; others run on this CPU, and the summary says so.

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


if settings.report_dir is not None:
    _write_at_exit(settings.report_dir)
