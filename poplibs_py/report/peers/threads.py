"""Hold this library and every peer to one number of threads, so that a comparison is fair."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...config import thread_limit
from ...errors import whole
from .mkl import load_mkl
from .versions import installed

__all__ = ["limited_threads"]

_OPENBLAS_NAMES = (
    "scipy_openblas_{verb}_num_threads64_",
    "scipy_openblas_{verb}_num_threads",
    "openblas_{verb}_num_threads64_",
    "openblas_{verb}_num_threads",
)

_Control = tuple[Callable[[], int], Callable[[int], None]]


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Within the block, this library, OpenBLAS (NumPy, SciPy), MKL and torch use at most `count` threads each.

    Peers that are installed are loaded first: a library that came later would start with threads of its own.

    Examples
    --------
    >>> with limited_threads(1):
    ...     pass
    """
    count = whole("count", count, 1, 256)
    controls = [*_torch_controls(), *_mkl_controls(), *_openblas_controls()]
    before = [get() for get, _ in controls]
    for _, put in controls:
        put(count)
    try:
        with thread_limit(count):
            yield
    finally:
        for (_, put), value in zip(controls, before, strict=True):
            put(value)


def _openblas_controls() -> tuple[_Control, ...]:
    """Controls of every OpenBLAS that this process has loaded: NumPy's, SciPy's and any other."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return ()
    paths = {line.split()[-1] for line in maps.read_text().splitlines() if "openblas" in line}
    controls = []
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for name in _OPENBLAS_NAMES:
            get, put = (getattr(library, name.format(verb=verb), None) for verb in ("get", "set"))
            if get is not None and put is not None:
                controls.append((get, put))
                break
    return tuple(controls)


def _mkl_controls() -> tuple[_Control, ...]:
    mkl = load_mkl()
    return () if mkl is None else ((mkl.threads, mkl.set_threads),)


def _torch_controls() -> tuple[_Control, ...]:
    if "torch" not in installed():
        return ()
    import torch

    return ((torch.get_num_threads, torch.set_num_threads),)
