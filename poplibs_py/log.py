"""Logging with PopLibs' levels and environment variables.

INFO tells each operation that ran, with its shapes, formats, kernel and time (all that `poplibs_py.profile` collects);
DEBUG each plan and program, when it is made; TRACE each choice of a kernel, with those that lost; WARN what went on
although a memory limit or a capacity was not kept. There is a logger for each room, ``poplibs_py.popsparse`` for
example: an ordinary `logging.Logger`, so handlers and filters of the standard library apply. The level and the
destination are read once, at import, so that a call costs nothing where nobody asked; a file that cannot be written is
refused then. A message that fails later (a full disk) is told on stderr and breaks no call.

Warnings are Python's, which filters of `warnings` rule, and are in the log besides, under ``get("warnings")``; where
nothing but warnings goes to stderr, which is the default, Python's own line stands alone.
"""

from __future__ import annotations

import logging
import sys

from .checks import instance
from .config import LOG_LEVELS, settings
from .errors import WARNINGS, bad_argument, described

__all__ = ["TRACE", "get", "is_on", "tell"]

TRACE = 5
_NUMBERS = TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL + 1
_LEVELS = dict(zip(LOG_LEVELS, _NUMBERS, strict=True))


def get(room: str) -> logging.Logger:
    """Return the logger of one room of the library, for example ``"planner"``."""
    instance("room", room, str, "a text")
    return logging.getLogger(f"poplibs_py.{room}")


def is_on(level: int) -> bool:
    """Whether the environment asked for messages of this level, a number such as `TRACE` or ``logging.INFO``."""
    instance("level", level, int, "a level as a number, such as logging.INFO")
    return level >= _LEVELS[settings.log_level]


def tell(room: str, what: object) -> None:
    """Log at DEBUG, on one line, a plan or program that was made; it is put in words only where they are read."""
    logger = get(room)
    if logger.isEnabledFor(logging.DEBUG):
        try:
            words = str(what)
        except Exception:  # of an object of somebody else's
            words = described(what)
        lines = (" ".join(line.split()) for line in words.splitlines())
        logger.debug("%s", "; ".join(line for line in lines if line))


def _configure() -> None:
    logging.addLevelName(TRACE, "TRACE")
    root = logging.getLogger("poplibs_py")
    root.setLevel(_LEVELS[settings.log_level])
    handler: logging.Handler
    if settings.log_dest in ("stderr", "stdout"):
        handler = logging.StreamHandler(getattr(sys, settings.log_dest))
    else:
        try:  # now, not at the first message: what fails then would fail in a user's call
            handler = logging.FileHandler(settings.log_dest)
        except OSError as error:
            allowed = "stderr, stdout or the name of a file that can be written"
            raise bad_argument("POPLIBS_LOG_DEST", f"{settings.log_dest} ({error.strerror})", allowed) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    if settings.log_dest == "stderr" and not is_on(logging.INFO):
        handler.addFilter(lambda message: message.name != WARNINGS)
    root.addHandler(handler)
    root.propagate = False


_configure()
