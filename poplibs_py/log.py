"""Logging with PopLibs' levels and environment variables.

INFO tells which public function was called with which shapes, DEBUG one line for each plan, TRACE one for each
candidate and kernel, WARN that an invariant was not met and work goes on. `poplibs_py.log.get("planner")` is an
ordinary `logging.Logger`, so handlers and filters of the standard library apply.
"""

from __future__ import annotations

import logging
import sys

from .config import settings

__all__ = ["TRACE", "get"]

TRACE = 5
_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": logging.CRITICAL + 1,
}


def get(room: str) -> logging.Logger:
    """Return the logger of one room of the library, for example ``"planner"``."""
    return logging.getLogger(f"poplibs_py.{room}")


def _configure() -> None:
    logging.addLevelName(TRACE, "TRACE")
    root = logging.getLogger("poplibs_py")
    root.setLevel(_LEVELS[settings.log_level])
    handler: logging.Handler
    if settings.log_dest in ("stderr", "stdout"):
        handler = logging.StreamHandler(getattr(sys, settings.log_dest))
    else:
        handler = logging.FileHandler(settings.log_dest, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.propagate = False


_configure()
