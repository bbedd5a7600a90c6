"""Grids: `linspace`, `meshgrid2d`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..checks import check_shape, finite, whole
from ..formats import Array, Format, format_of
from ..formats.bounds import Ball
from ..formats.reference import values
from ..ops import Request, array_operand, op, operand, receive, wide_format
from ..ops.parts import Part, results
from ..popops.making.made import made_request
from ..popops.sequence import SequenceBuilder
from ..target import TargetLike

_MOST = 1 << 40


class Grid(NamedTuple):
    """What `meshgrid2d` returns."""

    xs: Any
    ys: Any


@op("poplin::linspace", bound="poplin.grids", draws="testing.norm_calls", lacks="of grids")
def linspace(left: float, right: float, count: int, *, dtype: object = None, out: Any = None,
             target: TargetLike = None) -> Any:
    """Return evenly spaced numbers, both ends among them (``poplin::linspace``).

    Parameters
    ----------
    left, right : float
        The ends, finite.
    count : int
        How many numbers: ``left`` alone where it is 1.
    dtype : dtype, Format or str, optional
        float32 (default), float16 or bfloat16. Beside an `out` it must be the format of that.
    out : array [count], optional
        Where they go.

    Returns
    -------
    numpy.ndarray [count]

    Notes
    -----
    Each number is computed by itself in float64 and rounded once, so that the last is `right`. PopLibs adds the step
    again and again, and drifts.

    Examples
    --------
    >>> poplin.linspace(0, 1, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    left, right, count = finite("left", left), finite("right", right), whole("count", count, 0, _MOST)
    receiver = receive("out", out, (count,), dtype, format_of("float32"))
    wide_format("dtype" if out is None else "out", receiver.format)

    def make(result: Array) -> None:
        with np.errstate(over="ignore"):
            result[...] = _spaced(left, right, count)

    return made_request(make, receiver, "linspace", (count,))


def _spaced(left: float, right: float, count: int) -> Array:
    share = np.arange(count) / max(1, count - 1)
    return np.asarray(left * (1 - share) + right * share)


def linspace_bound(left: float, right: float, count: int, *, dtype: Any = None, out: Any = None,
                   target: Any = None) -> Ball:
    """Return exact numbers and radii of a `linspace` call."""
    made: Format = format_of(out if out is not None else "float32" if dtype is None else dtype)
    size = max(abs(left), abs(right))
    return Ball(_spaced(left, right, count), np.full(count, size * 2.0**-50)).rounded(made)


@op("poplin::meshgrid2d", bound="poplin.grids", draws="testing.norm_calls", written=None, lacks="of grids")
def meshgrid2d(x: Any, y: Any, *, out: Any = None, target: TargetLike = None) -> Any:
    """Return the coordinates of a grid's points (``poplin::meshgrid2d``).

    Parameters
    ----------
    x, y : array_like [nx], [ny]
        Of any of this library's formats; lists become float32.
    out : tuple of two arrays [ny, nx], optional
        Where they go, in the formats of `x` and `y`.

    Returns
    -------
    xs : numpy.ndarray [ny, nx]
        `x` in each row.
    ys : numpy.ndarray [ny, nx]
        `y` in each column.

    Examples
    --------
    >>> poplin.meshgrid2d([1.0, 2.0], [3.0])
    Grid(xs=array([[1., 2.]], dtype=float32), ys=array([[3., 3.]], dtype=float32))
    """
    given = tuple(array_operand(name, value) for name, value in (("x", x), ("y", y)))
    for name, vector in zip("xy", given, strict=True):
        check_shape(name, vector, len(vector.shape) == 1, "a vector")
    shape = (given[1].shape[0], given[0].shape[0])
    made = results(out, tuple(Part(shape, x.format, strided=True) for x in given), Grid)

    steps = SequenceBuilder(*(vector.array for vector in given), *made.arrays)
    across, down, *grids = steps.operands
    for line, grid in zip((across, down[:, np.newaxis]), grids, strict=True):
        steps.copy(np.broadcast_to(line, shape), grid)
    return Request.to(made, steps.made(), given, steps.told("meshgrid2d", shape, given[0].format))


def meshgrid2d_bound(x: Any, y: Any, *, out: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return the results of a `meshgrid2d` call, which are exact."""
    xs, ys = np.meshgrid(*(values(operand(name, value).array) for name, value in (("x", x), ("y", y))))
    return Ball.exact(xs), Ball.exact(ys)
