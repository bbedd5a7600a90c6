"""What the PopSparse paper measured on a Bow machine, as data, and files of such figures.

Sources: *PopSparse: Accelerated Block Sparse Matrix Multiplication on IPU* (arXiv 2303.16999) and the notebook of its
published benchmark code. Speed-ups are printed there; rates were read off the figures, to about 1.5 % (dense ones by n
to about 4 %). FLOPs are counted on stored values, ``2 m k n density``, for a dense product beside sparse ones too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ...checks import one_of, real, whole
from ...errors import bad_argument, described
from ...files import file_path

TYPES = ("FP16", "FP32")
METHODS = ("dense", "static_sparse", "dynamic_sparse")
_MOST = 1 << 20
_FIELDS = ("m", "k", "n", "density", "block_size", "type", "method", "flop_rate", "tflops", "speed_up", "source")
_TAKEN = (*_FIELDS, "device", "valid", "flop_count")
"""The columns of the paper's own data beside ours: rows of other devices, or not valid, are passed over."""


@dataclass(frozen=True)
class Figure:
    """One figure: a rate, or a speed-up over the dense product of the same sizes.

    Parameters
    ----------
    type : {"FP16", "FP32"}
    method : {"dense", "static_sparse", "dynamic_sparse"}
    m, k : int
        Rows and columns of W.
    n : int or None
        Columns of X; None where the figure is the best over n.
    density : float
        Share of W's blocks that is stored; a dense rate is counted at it.
    block_size : int or None
        Side of the blocks; None for a dense product.
    tflops : float or None
        TFLOP/s on stored values.
    speed_up : float or None
        Times faster than the dense product. One of the two is there.
    source : str, optional
        Where it is from.
    """

    type: str
    method: str
    m: int
    k: int
    n: int | None
    density: float
    block_size: int | None
    tflops: float | None = None
    speed_up: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        one_of("type", self.type, TYPES)
        one_of("method", self.method, METHODS)
        for name in ("m", "k", "n", "block_size"):
            value = getattr(self, name)
            if value is not None or name in ("m", "k"):
                object.__setattr__(self, name, whole(name, value, 1, _MOST))
        if not 0 < real("density", self.density, "more than 0 and at most 1") <= 1:
            raise bad_argument("density", self.density, "more than 0 and at most 1")
        if self.is_dense != (self.block_size is None):
            raise bad_argument("block_size", self.block_size, "none for a dense product, and a whole number for others")
        if not self.is_dense and self.block_size not in (1, 4, 8, 16):
            raise bad_argument("block_size", self.block_size, "1, 4, 8 or 16, which the machine has vertices for")
        for name in ("m", "k"):
            if getattr(self, name) % (self.block_size or 1):
                raise bad_argument(name, getattr(self, name), f"a multiple of block_size, {self.block_size}")
        told = [value for value in (self.tflops, self.speed_up) if value is not None]
        if len(told) != 1 or not 0 < real("figure", told[0], "more than 0") < math.inf:
            raise bad_argument("figure", told, "one rate, or one speed-up, more than 0")

    @property
    def is_dense(self) -> bool:
        """Whether it is of a dense product."""
        return self.method == "dense"

    @property
    def value(self) -> float:
        """The rate in TFLOP/s, or the speed-up."""
        return self.tflops or self.speed_up or 0.0


def read_figures(path: str | Path) -> list[Figure]:
    """Read figures from a file, a JSON object on each line.

    Parameters
    ----------
    path : str or Path
        Fields are those of `Figure`; `k` is `m` by default, `n` null (the best over n), `density` 1 and `block_size`
        null. A density may be a text such as ``"1/16"``; a rate may be ``flop_rate``, in FLOP/s, as in the paper's own
        data, whose other columns are taken too.

    Raises
    ------
    InvalidArgumentError
        If the file cannot be read, or a line is no figure; the message names the line.
    """
    path = file_path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise bad_argument("compare-paper", described(path), f"a file that can be read ({error})") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            figure = _figure(json.loads(line))
        except (ValueError, TypeError, ZeroDivisionError) as error:
            raise bad_argument("compare-paper", f"line {number} of {described(path)} ({error})",
                               f"JSON objects with {', '.join(_FIELDS)}") from error
        found += [figure] if figure else []
    if not found:
        raise bad_argument("compare-paper", f"{described(path)} without a figure", "at least one figure")
    return found


def _figure(given: Any) -> Figure | None:
    """The figure of a JSON object; None where it is of another device or not valid."""
    if not isinstance(given, Mapping) or set(given) - set(_TAKEN):
        raise ValueError(f"no object of {', '.join(_TAKEN)}")
    said: dict[str, Any] = {key: None if isinstance(value, float) and math.isnan(value) else value
                            for key, value in given.items()}
    if said.get("device") not in (None, "IPU") or said.get("valid") is False:
        return None
    rate, density = said.get("flop_rate"), said.get("density")
    tflops = said.get("tflops") if rate is None else float(rate) / 1e12
    method = str(said.get("method", ""))
    method += "_sparse" * (method in ("static", "dynamic"))
    return Figure(said.get("type", ""), method, said.get("m", 0), said.get("k", said.get("m", 0)),
                  said.get("n"), float(Fraction(density)) if density is not None else 1.0, said.get("block_size"),
                  tflops, said.get("speed_up"), str(said.get("source", "")))


LAW = (0.0013, 0.59, -0.54, 0.50)
"""The paper's fit of static FP16 speed-ups, best over n: a factor, and exponents of m = k, density and block size.
Nearly all of its points are within a factor of two of it."""


def law_of_speed_up(m: int, density: float, block: int) -> float:
    """Return the speed-up of a static FP16 product, best over n, that the paper's power law gives.

    Examples
    --------
    >>> round(law_of_speed_up(4096, 1 / 16, 16), 2)
    3.14
    """
    m, block = whole("m", m, 1, 1 << 40), whole("block", block, 1, 1 << 40)
    density = real("density", density, low=1e-9, high=1.0)
    factor, by_m, by_density, by_block = LAW
    return float(factor * m**by_m * density**by_density * block**by_block)


_BY_DENSITY = {  # FP16, m = k = 4096, best over n: dense, static and dynamic in blocks of 1 and 16
    1 / 4: (57, 11.6, 90, 9.6, 55),
    1 / 8: (28.1, 11.77, 68, 7.6, 39),
    1 / 16: (14.2, 10.50, 69.5, 5.9, 26.9),
    1 / 32: (7.1, 8.6, 35.6, 3.7, 15.4),
}
_BY_BLOCK = {4: (21.5, 14.4), 8: (49.0, 21.2)}  # FP16, m = k = 4096, density 1/16: static, dynamic
_SPEED_UPS = {  # m = k = 4096, density 1/16, best over n: dynamic, static
    ("FP16", 1): (0.4, 0.7), ("FP32", 1): (0.9, 1.4), ("FP16", 16): (1.9, 4.9), ("FP32", 16): (3.8, 5.6),
}  # fmt: skip
_DENSE: dict[tuple[str, int], tuple[float | None, ...]] = {  # FP16 for n = 4, 16, 64 ..., FP32 for n = 4, 8, 16 ...
    ("FP16", 1024): (6.1, 20.5, 46, 90, 121, 181, 224),
    ("FP16", 2048): (13, 45, 83, 135, 167, 213, 240),
    ("FP16", 4096): (18.4, 62, 131, 176, 210, 226),
    ("FP16", 8192): (21.6, 73, 158, 224, 206, 225),
    ("FP32", 1024): (3.7, 6.5, 11.1, 16.2, 21.2, 29.2, 34.3, 36.2, 43.6, 49.9, 55.5, 57.0, 58.6, 58.6),
    ("FP32", 2048): (5.7, 10.3, 18, 26, 34, 39, 45, 50, 53, 57, 59, 60),
    ("FP32", 4096): (7.1, 12.4, 22, 32, 41, 49, 53, 54, 55.5, 57, 59),
    ("FP32", 8192): (7.7, 13.8, 25, 36, 49, 50, 55.5, None, 54),
}


def _published() -> Iterator[Figure]:
    side, middle = 4096, 1 / 16
    for (kind, block), (dynamic, static) in _SPEED_UPS.items():
        for method, value in (("static_sparse", static), ("dynamic_sparse", dynamic)):
            yield Figure(kind, method, side, side, None, middle, block, speed_up=value, source="table of speed-ups")
    cells = [("dense", None), *((method, block) for method in METHODS[1:] for block in (1, 16))]
    for density, by_cell in _BY_DENSITY.items():
        for (method, size), rate in zip(cells, by_cell, strict=True):
            yield Figure("FP16", method, side, side, None, density, size, rate, source="rates by density")
    for block, by_method in _BY_BLOCK.items():
        for method, rate in zip(METHODS[1:], by_method, strict=True):
            yield Figure("FP16", method, side, side, None, middle, block, rate, source="rates by block size")
    for (kind, extent), by_n in _DENSE.items():
        for i, dense in enumerate(by_n):
            if dense:
                n = 4 << (2 * i if kind == "FP16" else i)
                yield Figure(kind, "dense", extent, extent, n, 1.0, None, dense, source="dense rates by n")


PUBLISHED: tuple[Figure, ...] = tuple(_published())
"""The paper's figures."""
