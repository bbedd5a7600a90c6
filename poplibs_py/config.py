"""Settings, read once from the environment at import; the number of threads can be limited for a while.

====================== ============================================================ =================
Variable               Meaning                                                      Default
====================== ============================================================ =================
POPLIBS_MAX_ISA        highest instruction-set level that may be used               all that the CPU has
POPLIBS_NUM_THREADS    threads of the host target                                   the CPUs this process may use
POPLIBS_RESULT_POOL    bytes of dead results' memory kept for the next; 0: none     128 MiB
POPLIBS_LOG_LEVEL      TRACE, DEBUG, INFO, WARN, ERR or OFF                         WARN
POPLIBS_LOG_DEST       stderr, stdout or a file name                                stderr
POPLIBS_CACHE_DIR      folder of the plan cache that outlives the process           none
POPLIBS_ENGINE_OPTIONS a JSON object: ``autoReport.all``, ``autoReport.directory``  no report
====================== ============================================================ =================
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .checks import instance, whole
from .errors import bad_argument, bad_type, check_keys

__all__ = ["LEVELS", "LOG_LEVELS", "MOST_RESULT_POOL", "Settings", "read_settings", "settings", "thread_limit"]

LEVELS = (
    "portable",
    "avx2",
    "avx512",
    "avx512_bf16",
    "amx",
)
"""Instruction-set levels, lowest first, as ``src_cython/cpu/levels.def`` has them."""

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "OFF")

_REPORT, _REPORT_DIR = "autoReport.all", "autoReport.directory"

RESULT_POOL = 128 << 20
"""Bytes that the pool of results keeps by default: a few results of a size at which fresh pages cost most."""

MOST_RESULT_POOL = 1 << 62


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for.

    Attributes
    ----------
    max_isa : str
        One of `LEVELS`.
    num_threads : int
        Threads of the host target, at least 1.
    result_pool : int
        The most bytes of dead results that are kept for later ones; 0 keeps none. See `poplibs_py.program.result_pool`.
    log_level : str
        One of `LOG_LEVELS`.
    log_dest : str
        ``"stderr"``, ``"stdout"`` or a file name.
    cache_dir : str or None
        Folder of the lasting plan cache.
    report_dir : str or None
        Folder of the report that a program writes at its end (``autoReport.all`` and ``autoReport.directory`` of
        ``POPLIBS_ENGINE_OPTIONS``).
    emulate_amx : bool
        Use the AMX kernels on software tiles where this build has them (``POPLIBS_EMULATE_AMX=1``; for tests).
    emulate_avx512 : bool
        Use the kernels of AVX-512, with BF16 too, that have loops in place of its instructions, for CPUs with AVX2
        alone, and no others of these levels (``POPLIBS_EMULATE_AVX512=1``; for tests, where this build has them).
    """

    max_isa: str = LEVELS[-1]
    num_threads: int = 1
    result_pool: int = RESULT_POOL
    log_level: str = "WARN"
    log_dest: str = "stderr"
    cache_dir: str | None = None
    report_dir: str | None = None
    emulate_amx: bool = False
    emulate_avx512: bool = False


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings from an `environment`, a mapping such as `os.environ`.

    Raises
    ------
    InvalidArgumentError
        If a variable holds a value that is not allowed.

    Examples
    --------
    >>> read_settings({"POPLIBS_MAX_ISA": "avx2", "POPLIBS_NUM_THREADS": "1"}).max_isa
    'avx2'
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    instance("environment", environment, Mapping, "a mapping of texts, such as os.environ")
    try:
        items = list(environment.items())
    except Exception:  # whatever a mapping of somebody else's raises
        raise bad_type("environment", environment, "a mapping of texts, such as os.environ") from None
    environment = {name: value for name, value in items if isinstance(name, str)}
    for name, value in items:
        if isinstance(name, str) and name.startswith("POPLIBS_"):
            instance(name, value, str, "a text")
    return Settings(
        max_isa=_choice(environment, "POPLIBS_MAX_ISA", LEVELS, LEVELS[-1]),
        num_threads=_count(environment, "POPLIBS_NUM_THREADS", available, "a whole number", 1, 256),
        result_pool=_count(environment, "POPLIBS_RESULT_POOL", RESULT_POOL, "a whole number of bytes", 0,
                           MOST_RESULT_POOL),
        log_level=_choice(environment, "POPLIBS_LOG_LEVEL", LOG_LEVELS, "WARN"),
        log_dest=environment.get("POPLIBS_LOG_DEST") or "stderr",
        cache_dir=environment.get("POPLIBS_CACHE_DIR") or None,
        report_dir=_report_dir(environment.get("POPLIBS_ENGINE_OPTIONS")),
        emulate_amx=environment.get("POPLIBS_EMULATE_AMX") == "1",
        emulate_avx512=environment.get("POPLIBS_EMULATE_AVX512") == "1",
    )


def _choice(environment: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    text = environment.get(name) or default
    for value in allowed:
        if text.lower() == value.lower():
            return value
    raise bad_argument(name, text, ", ".join(allowed))


def _count(environment: Mapping[str, str], name: str, default: int, what: str, low: int, high: int) -> int:
    text = environment.get(name)
    if not text:
        return default
    if not text.isdecimal() or len(text) > 19 or not low <= int(text) <= high:
        raise bad_argument(name, text, f"{what} from {low} to {high}")
    return int(text)


def _report_dir(text: str | None) -> str | None:
    """Where a report goes, of Poplar's options that ask for one."""
    if not text:
        return None
    allowed = f'a JSON object such as {{"{_REPORT}": "true", "{_REPORT_DIR}": "./report"}}'
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_argument("POPLIBS_ENGINE_OPTIONS", text, allowed) from None
    if not isinstance(options, dict):
        raise bad_argument("POPLIBS_ENGINE_OPTIONS", text, allowed)
    check_keys("POPLIBS_ENGINE_OPTIONS", options, (_REPORT, _REPORT_DIR))
    wanted, folder = options.get(_REPORT, "false"), options.get(_REPORT_DIR, ".")
    if wanted not in (True, False, "true", "false"):
        raise bad_argument(_REPORT, wanted, '"true" or "false"')
    if not isinstance(folder, str) or not folder:
        raise bad_argument(_REPORT_DIR, folder, "the name of a folder")
    return folder if wanted in (True, "true") else None


settings = read_settings(os.environ)


@contextmanager
def thread_limit(count: int) -> Iterator[None]:
    """Within the block, operations of the host target take at most `count` threads, in the whole process.

    Parameters
    ----------
    count : int
        From 1 to 256. It may exceed what the environment asked for.

    Examples
    --------
    >>> with thread_limit(1):
    ...     settings.num_threads
    1
    """
    count = whole("count", count, 1, 256)
    before = settings.num_threads
    object.__setattr__(settings, "num_threads", count)
    try:
        yield
    finally:
        object.__setattr__(settings, "num_threads", before)
