"""Hold this library and every peer to one number of threads, so that a comparison is fair."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...checks import whole
from ...config import thread_limit
from .mkl import load_mkl
from .versions import installed

_OPENBLAS_NAMES = ("scipy_openblas_{verb}_num_threads64_", "scipy_openblas_{verb}_num_threads",
                   "openblas_{verb}_num_threads64_", "openblas_{verb}_num_threads")

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
    controls = list(_controls())
    before = [get() for get, _ in controls]
    for _, put in controls:
        put(count)
    try:
        with thread_limit(count):
            yield
    finally:
        for (_, put), value in zip(controls, before, strict=True):
            put(value)


def _controls() -> Iterator[_Control]:
    """Controls of torch, MKL and every OpenBLAS that this process has loaded: NumPy's, SciPy's and any other."""
    if "torch" in installed():
        import torch

        yield torch.get_num_threads, torch.set_num_threads
    mkl = load_mkl()
    if mkl is not None:
        yield mkl.threads, mkl.set_threads
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    for path in sorted({line.split()[-1] for line in lines if "openblas" in line}):
        library = ctypes.CDLL(path)
        for name in _OPENBLAS_NAMES:
            get, put = (getattr(library, name.format(verb=verb), None) for verb in ("get", "set"))
            if get is not None and put is not None:
                yield get, put
                break
