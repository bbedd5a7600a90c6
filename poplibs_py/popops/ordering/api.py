"""Orders of rows: sorted, the places that sort them, the greatest or least of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...ops import op
from ...target import TargetLike
from .request import ordering_request

__all__ = ["KeysAndValues", "ValuesAndIndices", "argpartition", "argsort", "partition", "sort", "sort_key_value",
           "top_k", "top_k_key_value", "top_k_with_permutation"]


class KeysAndValues(NamedTuple):
    """What `sort_key_value` and `top_k_key_value` return."""

    keys: Any
    values: Any


class ValuesAndIndices(NamedTuple):
    """What `top_k_with_permutation` returns."""

    values: Any
    indices: Any


@op("popops::sort", bound="popops.ordering.bound", draws="testing.ordering_calls")
def sort(x: Any, axis: int | None = -1, *, descending: bool = False, out: Any = None, target: TargetLike = None) -> Any:
    """Sort rows (``popops::sort``, NumPy's ``sort``).

    Parameters
    ----------
    x : array_like
        float32, float16, bfloat16, FP8 or integer numbers or truth values, of any shape and strides. Lists become
        float32.
    axis : int, optional
        That rows lie along; the last by default. None: all elements in C order, as one row.
    descending : bool, optional
        Whether the greatest are first: the reverse of the ascending order.
    out : array, optional
        Where the result goes, of any strides and the dtype of `x`; it may be `x`, or overlap it.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are the same; it has
        vertices for float32, float16, int32 and uint32, beside which values of 32 bits move, and none for partitions.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the dtype of `x`.

    Notes
    -----
    The codes themselves, in one order that is the same at every instruction-set level: minus zero is before zero, NaNs
    are last: those of positive sign, by their other bits, then those of negative sign, the greatest bits first. In
    `argsort` and in the best of rows zeros are equal, and so are NaNs.

    Examples
    --------
    >>> popops.sort([3.0, 1.0, 2.0]), popops.sort([3.0, 1.0, 2.0], descending=True)
    (array([1., 2., 3.], dtype=float32), array([3., 2., 1.], dtype=float32))
    """
    return ordering_request("sort", x, axis, descending=descending, out=out, target=target)


@op(bound="popops.ordering.bound", draws="testing.ordering_calls:sort_calls")
def argsort(x: Any, axis: int | None = -1, *, descending: bool = False, out: Any = None,
            target: TargetLike = None) -> Any:
    """Places of rows' elements in order, stable (NumPy's ``argsort``; PopLibs has none).

    Parameters
    ----------
    x, axis, target
        As `sort` takes them.
    descending : bool, optional
        Whether the greatest are first; equal elements stay in the order of their places then too.
    out : array of int64, optional
        Where the result goes.

    Returns
    -------
    numpy.ndarray of int64
        `out`, or a new array.

    Notes
    -----
    Always stable: NumPy's ``argsort(x, kind="stable")``. NaN is greatest, and equal to NaN; zeros are equal.

    Examples
    --------
    >>> popops.argsort([3.0, 1.0, 2.0, 1.0]), popops.argsort([3.0, 1.0, 2.0, 1.0], descending=True)
    (array([1, 3, 2, 0]), array([0, 2, 1, 3]))
    """
    return ordering_request("argsort", x, axis, descending=descending, places=True, out=out, target=target)


@op(bound="popops.ordering.bound", draws="testing.ordering_calls")
def partition(x: Any, kth: int, axis: int | None = -1, *, out: Any = None, target: TargetLike = None) -> Any:
    """Put rows' elements before and behind the one that sorting puts at a place (NumPy's ``partition``).

    Parameters
    ----------
    x, axis, out, target
        As `sort` takes them.
    kth : int
        The place; a negative one counts from the end.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the dtype of `x`.

    Notes
    -----
    What is less than the element comes first, then what is equal to it, then what is greater, each in the order of its
    places: NumPy leaves that open. NaN is greatest, and equal to NaN; zeros are equal. PopLibs has none.

    Examples
    --------
    >>> popops.partition([3.0, 5.0, 1.0, 4.0, 2.0], 2)
    array([1., 2., 3., 5., 4.], dtype=float32)
    """
    return ordering_request("partition", x, axis, kth=kth, out=out, target=target)


@op(bound="popops.ordering.bound", draws="testing.ordering_calls:partition_calls")
def argpartition(x: Any, kth: int, axis: int | None = -1, *, out: Any = None, target: TargetLike = None) -> Any:
    """Places of rows' elements in the order of `partition` (NumPy's ``argpartition``).

    Parameters
    ----------
    x, kth, axis, target
        As `partition` takes them.
    out : array of int64, optional
        Where the result goes.

    Returns
    -------
    numpy.ndarray of int64
        `out`, or a new array.

    Examples
    --------
    >>> popops.argpartition([3.0, 5.0, 1.0, 4.0, 2.0], 2)
    array([2, 4, 0, 1, 3])
    """
    return ordering_request("argpartition", x, axis, places=True, kth=kth, out=out, target=target)


@op("popops::sortKeyValue", bound="popops.ordering.bound", draws="testing.ordering_calls", written=None)
def sort_key_value(keys: Any, values: Any, axis: int | None = -1, *, descending: bool = False, out: Any = None,
                   target: TargetLike = None) -> Any:
    """Sort rows of keys, and values along with them, stable (``popops::sortKeyValue``).

    Parameters
    ----------
    keys : array_like
        As `x` of `sort`.
    values : array_like
        Numbers of any of these types, of the shape of `keys`.
    axis, descending, target
        As `argsort` takes them.
    out : tuple of two arrays, optional
        Where keys and values go.

    Returns
    -------
    KeysAndValues
        ``keys`` in order, and ``values`` in the keys' order.

    Notes
    -----
    In the order of `argsort`; PopLibs' leaves open which of equal keys is first.

    Examples
    --------
    >>> popops.sort_key_value([3.0, 1.0], [10.0, 20.0])
    KeysAndValues(keys=array([1., 3.], dtype=float32), values=array([20., 10.], dtype=float32))
    """
    return ordering_request("sort_key_value", keys, axis, descending=descending, other=values,
                            kind=KeysAndValues, out=out, target=target, argument="keys")


@op("popops::topK", bound="popops.ordering.bound", draws="testing.ordering_calls")
def top_k(x: Any, k: int, axis: int | None = -1, *, largest: bool = True, sort_order: str = "none", out: Any = None,
          target: TargetLike = None) -> Any:
    """Greatest or least elements of rows (``popops::topK``).

    Parameters
    ----------
    x, axis, target
        As `sort` takes them.
    k : int
        How many, up to the elements of a row.
    largest : bool, optional
        Whether the greatest are taken, else the least. NaN is greatest.
    sort_order : {"none", "ascending", "descending"}, optional
        The order of the results. ``"none"``, which PopLibs leaves open, has the best first.
    out : array, optional
        Where the result goes, of the dtype of `x`.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape of `x` but for `axis`, which has k elements.

    Notes
    -----
    The codes themselves. Of equal elements the first are taken, and are first in the result, whatever the order:
    PopLibs' ``stableSort``. Zeros are equal, and so are NaNs.

    Examples
    --------
    >>> popops.top_k([3.0, 1.0, 2.0], 2), popops.top_k([3.0, 1.0, 2.0], 2, largest=False)
    (array([3., 2.], dtype=float32), array([1., 2.], dtype=float32))
    """
    return ordering_request("top_k", x, axis, k=k, largest=largest, sort_order=sort_order, out=out, target=target)


@op("popops::topKWithPermutation", draws="testing.ordering_calls:top_k_calls", bound="popops.ordering.bound",
    written=None)
def top_k_with_permutation(x: Any, k: int, axis: int | None = -1, *, largest: bool = True, sort_order: str = "none",
                           out: Any = None, target: TargetLike = None) -> Any:
    """Greatest or least elements of rows, and their places (``popops::topKWithPermutation``).

    Parameters
    ----------
    x, k, axis, largest, sort_order, target
        As `top_k` takes them.
    out : tuple of two arrays, optional
        Where values and places go.

    Returns
    -------
    ValuesAndIndices
        ``values``, those of `top_k`, and ``indices``, their places as int64.

    Examples
    --------
    >>> popops.top_k_with_permutation([3.0, 1.0, 3.0], 2)
    ValuesAndIndices(values=array([3., 3.], dtype=float32), indices=array([0, 2]))
    """
    return ordering_request("top_k_with_permutation", x, axis, k=k, largest=largest, sort_order=sort_order,
                            places=True, kind=ValuesAndIndices, out=out, target=target)


@op("popops::topKKeyValue", bound="popops.ordering.bound", draws="testing.ordering_calls", written=None)
def top_k_key_value(keys: Any, values: Any, k: int, axis: int | None = -1, *, largest: bool = True,
                    sort_order: str = "none", out: Any = None, target: TargetLike = None) -> Any:
    """Greatest or least keys of rows, and the values along with them (``popops::topKKeyValue``).

    Parameters
    ----------
    keys, values
        As `sort_key_value` takes them.
    k, axis, largest, sort_order, target
        As `top_k` takes them.
    out : tuple of two arrays, optional
        Where keys and values go.

    Returns
    -------
    KeysAndValues
        ``keys``, those of `top_k`, and ``values``, in their places.

    Examples
    --------
    >>> popops.top_k_key_value([3.0, 1.0, 2.0], [10.0, 20.0, 30.0], 2).values
    array([10., 30.], dtype=float32)
    """
    return ordering_request("top_k_key_value", keys, axis, k=k, largest=largest, sort_order=sort_order,
                            other=values, kind=KeysAndValues, out=out, target=target, argument="keys")
