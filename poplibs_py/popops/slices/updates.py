"""Updates of rows by index that take in what is there: sums, products, extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.record import with_sections
from ...target import TargetLike
from .api import row_update, slicing_op

__all__ = ["grouped_multi_update_add", "grouped_multi_update_max", "grouped_multi_update_mul", "multi_update_add",
           "multi_update_max", "multi_update_mul"]

_PARAMETERS = """
    Parameters
    ----------
    x : array_like [{front}entries, width], or of more axes
        Numbers of a format or integers, of any strides.
    updates : array_like [{front}n, 1, width] or [{front}n, width]
        Numbers of any format, or integers of the type of `x`.
    indices : array_like of int [{front}n] or [{front}n, 1]
        Of any integer type. One that comes several times updates its row as often.
{scale}    axis : int, optional
        The axis of `x` that they are of.

    Notes
    -----
    {numerics} The bits depend neither on the number of threads nor on the instruction-set level.
"""
_SCALE = """    scale : float, optional
        What updates are multiplied by; a whole number for integers.
"""
_SUMS = """In FP32, in the order of the indices: each product with the scale is rounded, and each sum. Numbers of other
    formats are rounded to theirs once, at the end (PopLibs: after each update). Integers wrap."""
_PRODUCTS = """In FP32, in the order of the indices, each product rounded. Numbers of other formats are rounded
    to theirs once, at the end (PopLibs: after each update). Integers wrap."""
_EXTREMES = "Exact. NaN where one of the numbers is NaN; in PopLibs one of an update alone."


def _changes(poplibs: str, numerics: str, scaled: bool = False) -> Callable[[Any], Any]:
    """Make a function an op: its docstring has a summary and examples, and the rest is the same for all."""
    def made(function: Any) -> Any:
        shared = _PARAMETERS.format(front="groups, " if poplibs.startswith("grouped") else "", numerics=numerics,
                                    scale=_SCALE if scaled else "")
        function.__doc__ = with_sections(function.__doc__ or "", shared)
        return slicing_op(poplibs, writes=True, memory="rows" if numerics == _EXTREMES else "sorted",
                          numbers=("scale",) * scaled, by=row_update)(function)

    return made


@_changes("multiUpdateAdd", _SUMS, scaled=True)
def multi_update_add(x: Any, updates: Any, indices: Any, scale: float = 1.0, *, axis: int = 0,
                     index_policy: str = "raise", out: Any = None, available_memory_proportion: float | None = None,
                     strict_memory: bool = False, target: TargetLike = None) -> Any:
    """Add to the rows of an array at each of several indices (``popops::multiUpdateAdd``): the gradient of look-ups.

    Examples
    --------
    >>> popops.multi_update_add([[1.0], [2.0], [3.0]], [[8.0], [4.0], [2.0]], [2, 0, 2], 0.5).ravel()
    array([3., 2., 8.], dtype=float32)
    """


@_changes("groupedMultiUpdateAdd", _SUMS, scaled=True)
def grouped_multi_update_add(x: Any, updates: Any, indices: Any, scale: float = 1.0, *, axis: int = 1,
                             index_policy: str = "raise", out: Any = None,
                             available_memory_proportion: float | None = None, strict_memory: bool = False,
                             target: TargetLike = None) -> Any:
    """`multi_update_add` of each of several arrays, with indices of its own (``popops::groupedMultiUpdateAdd``).

    Examples
    --------
    >>> popops.grouped_multi_update_add([[[1.0], [2.0]]], [[[8.0], [4.0]]], [[1, 1]]).ravel()
    array([ 1., 14.], dtype=float32)
    """


@_changes("multiUpdateMul", _PRODUCTS)
def multi_update_mul(x: Any, updates: Any, indices: Any, *, axis: int = 0, index_policy: str = "raise",
                     out: Any = None, available_memory_proportion: float | None = None, strict_memory: bool = False,
                     target: TargetLike = None) -> Any:
    """Multiply the rows of an array at each of several indices (``popops::multiUpdateMul``).

    Examples
    --------
    >>> popops.multi_update_mul([[1.0], [2.0], [3.0]], [[8.0], [4.0], [2.0]], [2, 0, 2]).ravel()
    array([ 4.,  2., 48.], dtype=float32)
    """


@_changes("groupedMultiUpdateMul", _PRODUCTS)
def grouped_multi_update_mul(x: Any, updates: Any, indices: Any, *, axis: int = 1, index_policy: str = "raise",
                             out: Any = None, available_memory_proportion: float | None = None,
                             strict_memory: bool = False, target: TargetLike = None) -> Any:
    """`multi_update_mul` of each of several arrays, with indices of its own (``popops::groupedMultiUpdateMul``).

    Examples
    --------
    >>> popops.grouped_multi_update_mul([[[1.0], [2.0]]], [[[8.0], [4.0]]], [[1, 1]]).ravel()
    array([ 1., 64.], dtype=float32)
    """


@_changes("multiUpdateMax", _EXTREMES)
def multi_update_max(x: Any, updates: Any, indices: Any, *, axis: int = 0, index_policy: str = "raise",
                     out: Any = None, available_memory_proportion: float | None = None, strict_memory: bool = False,
                     target: TargetLike = None) -> Any:
    """Raise the rows of an array at each of several indices to what is greater (``popops::multiUpdateMax``).

    Examples
    --------
    >>> popops.multi_update_max([[1.0], [2.0], [3.0]], [[8.0], [-4.0], [2.0]], [2, 0, 2]).ravel()
    array([1., 2., 8.], dtype=float32)
    """


@_changes("groupedMultiUpdateMax", _EXTREMES)
def grouped_multi_update_max(x: Any, updates: Any, indices: Any, *, axis: int = 1, index_policy: str = "raise",
                             out: Any = None, available_memory_proportion: float | None = None,
                             strict_memory: bool = False, target: TargetLike = None) -> Any:
    """`multi_update_max` of each of several arrays, with indices of its own (``popops::groupedMultiUpdateMax``).

    Examples
    --------
    >>> popops.grouped_multi_update_max([[[1.0], [2.0]]], [[[8.0], [4.0]]], [[1, 1]]).ravel()
    array([1., 8.], dtype=float32)
    """
