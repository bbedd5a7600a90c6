"""A progress bar on a terminal, and nothing at all elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from ..errors import bad_type, whole

__all__ = ["Progress"]


class Progress:
    """One line that tells how far a number of steps has come and how long the rest may take.

    Parameters
    ----------
    total : int
        How many steps there are.
    stream : text stream, optional
        Where to draw, standard error by default. Nothing is drawn unless it is a terminal.

    Examples
    --------
    >>> with Progress(2) as progress:
    ...     progress.step("first")
    ...     progress.step("second")
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total, self._done = max(1, whole("total", total, 0, 1 << 62)), 0
        self._stream = sys.stderr if stream is None else stream
        if not hasattr(self._stream, "isatty"):
            raise bad_type("stream", stream, "a text stream")
        self._shown = self._stream.isatty()
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def step(self, label: str) -> None:
        """Show that the work called `label` begins; what came before is done."""
        if self._shown:
            share = self._done / self._total
            filled = round(24 * share)
            spent = time.monotonic() - self._start
            rest = f", {_minutes(spent / share - spent)} left" if self._done else ""
            line = f"{'█' * filled}{'░' * (24 - filled)} {self._done}/{self._total}{rest}  {label}"
            self._stream.write("\r\x1b[2K" + line[: shutil.get_terminal_size().columns - 1])
            self._stream.flush()
        self._done += 1

    def clear(self) -> None:
        """Take the bar away."""
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
