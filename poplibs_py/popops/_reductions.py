"""Requests of reductions: what each is to the kernels, to NumPy for integers, and of nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..config import settings
from ..errors import bad_argument, bad_type, flag, whole
from ..formats import FP32, Format, QuarterArray
from ..formats.format import preset_of
from ..formats.reference import encode
from ..ops import RESULT, Operand, Receiver, Request, argument, modelled_target, operand, receive, result_format
from ..ops.numpy_ops import told
from ..program import temporary
from ..target import Target
from ._reduce import ReduceParams, ReduceProgram, Way, lower
from ._request import strided_request

__all__ = ["Reduction", "axes_of", "reduced_shape", "reduction_request"]

Array = np.ndarray[Any, Any]
OfIntegers = Callable[..., Any]

_ALLOWED = "float32, float16, bfloat16 or FP8 numbers, integers, truth values, or a QuarterArray"
_FLOATS = "float32, float16, bfloat16 or FP8 numbers, or a QuarterArray"


@dataclass(frozen=True)
class Reduction:
    """A reduction.

    Attributes
    ----------
    way : Way
        To the kernels.
    empty : float or None
        Of no elements; None where that is refused.
    integers : callable or None
        Of integers and truth values by NumPy, given the array, axes and keepdims; None where they are refused.
    result : numpy.dtype or None
        Of the result, where that is no format.
    scale : float
        What the state of a row is multiplied by, or what is added to a logarithm.
    update : bool
        Whether what the result holds is added.
    """

    way: Way
    empty: float | None
    integers: OfIntegers | None
    result: np.dtype[Any] | None = None
    scale: float = 1.0
    update: bool = False


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Return the axes that a call names, ascending; all by default."""
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, (str, bytes)) or not isinstance(axes, (int, np.integer, Sequence, np.ndarray)):
        raise bad_type("axes", axes, "an axis, a sequence of them, or None")
    named = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
    found = [whole("axes", axis, -rank, rank - 1) % rank if rank else _no_axis(axis) for axis in named]
    if len(set(found)) < len(found):
        raise bad_argument("axes", axes, "axes that are named once")
    return tuple(sorted(found))


def _no_axis(axis: object) -> NoReturn:
    raise bad_argument("axes", axis, "none: the operand has no axis")


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of the result."""
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def reduction_request(name: str, x: Any, axes: Any, made: Callable[[int], Reduction], *, keepdims: Any = False,
                      out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Request:
    """Describe a reduction.

    Parameters
    ----------
    name : str
        Its public name.
    x, axes, keepdims, out, out_dtype, target
        As the op takes them.
    made : callable
        The reduction, given how many elements make one result.
    """
    source = _source(x)
    over = axes_of(axes, source.array.ndim)
    shape = reduced_shape(source.shape, over, flag("keepdims", keepdims))
    count = math.prod(source.shape[d] for d in over)
    reduction = made(count)
    if count == 0 and reduction.empty is None and 0 not in shape:
        raise bad_argument("x", f"shape {source.shape}", f"one element or more over axes {over}")
    _, lacking = modelled_target(target, f"popops.{name}", lambda _: "of this reduction")
    if source.format is None:
        return _of_integers(name, source, over, shape, reduction, out, out_dtype, lacking)
    if reduction.result is not None and out_dtype is not None:
        raise bad_argument("out_dtype", out_dtype, f"None: results are {reduction.result}")
    receiver = receive("out", out, shape, out_dtype, reduction.result or result_format(source.format), (source,),
                       reads=reduction.update, contiguous=True)
    if count == 0:
        return _of_nothing(name, source, receiver, reduction, lacking)
    return _request(source, over, receiver, reduction, lacking)


def _source(x: Any) -> Operand:
    """The operand; integers and truth values have no format."""
    if isinstance(x, QuarterArray):
        return operand("x", x)
    source = argument("x", x, _ALLOWED, np.float32)
    array = source.array
    source.format = preset_of(array.dtype)
    if (source.format is None and array.dtype.kind not in "biu") or not array.dtype.isnative:
        hint = '; see its astype("float32")' if array.dtype == np.float64 else ""
        raise bad_type("x", f"dtype {array.dtype if array.dtype.isnative else array.dtype.str}", _ALLOWED + hint)
    return source


def _of_integers(name: str, x: Operand, axes: tuple[int, ...], shape: tuple[int, ...], reduction: Reduction, out: Any,
                 out_dtype: object, lacking: str) -> Request:
    """Integers and truth values by NumPy: exact, whatever the order."""
    function, update = reduction.integers, reduction.update
    if function is None:
        raise bad_type("x", f"dtype {x.array.dtype}", _FLOATS)
    if out_dtype is not None:
        raise bad_argument("out_dtype", out_dtype, f"None for {x.array.dtype} numbers")
    with np.errstate(all="ignore"):
        like = function(np.ones((1,) * x.array.ndim, x.array.dtype), axes)
    receiver = receive("out", out, shape, None, np.dtype(like.dtype), (x,), reads=update)
    count, dtype = math.prod(x.shape[d] for d in axes), receiver.array.dtype

    def run(array: Array, result: Array) -> None:
        with np.errstate(all="ignore"):
            if count == 0 and reduction.empty is not None:
                if not update:
                    result[...] = _least_or_greatest(reduction.empty, dtype)
                return
            made = np.asarray(function(array, axes)).reshape(result.shape)
            result[...] = result + made if update else made

    return Request(run, (x, RESULT), receiver, told(name, x.shape, x.array.dtype), steady=True,
                   lacking=lacking)


def _least_or_greatest(value: float, dtype: np.dtype[Any]) -> Any:
    """The identity as a dtype has it: infinities become its limits."""
    if not math.isinf(value) or dtype.kind == "f":
        return value
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if limits is None:
        return value > 0
    return limits.max if value > 0 else limits.min


def _of_nothing(name: str, x: Operand, receiver: Receiver, reduction: Reduction, lacking: str) -> Request:
    """What no elements are reduced to: the identity, or what is there already."""
    form, value = receiver.format, 0.0 if reduction.empty is None else reduction.empty  # there may be no result
    with np.errstate(all="ignore"):
        code = encode(np.array(value), form) if isinstance(form, Format) and form != FP32 else None

    def run(array: Array, result: Array) -> None:
        if reduction.update:
            return
        if code is None:
            result[...] = value
        else:
            result.view(code.dtype)[...] = code

    return Request(run, (x, RESULT), receiver, told(name, x.shape, x.format), steady=True, lacking=lacking)


def _request(x: Operand, axes: tuple[int, ...], receiver: Receiver, reduction: Reduction, lacking: str) -> Request:
    fmt, result = x.format, receiver.format
    assert fmt is not None
    read, exponent = x, x.scale
    if x.scales is not None:  # decoded before: blocks of scales lie across rows
        wide = Operand(temporary(x.shape), FP32)
        read, exponent = wide, 0
    assert read.format is not None
    params = ReduceParams(reduction.way, read.format, exponent, read.shape, read.array.strides, axes, result,
                          receiver.scale, reduction.scale, reduction.update)
    program = lower(params, settings.num_threads)

    def tell() -> tuple[str, str, Any]:
        return str(params), program.kernel, program

    if x.scales is None:
        return Request(program.executable, (x, RESULT), receiver, tell, lacking=lacking)
    run = _decoding(x, read, program)
    return Request(run, (x, RESULT, x.scales), receiver, tell, lacking=lacking, steady=True)


def _decoding(x: Operand, wide: Operand, program: ReduceProgram) -> Callable[..., None]:
    """A program of numbers as one of codes with scales of blocks."""
    decode = strided_request(None, x, Receiver(wide.array, FP32), "inf").program
    shape = x.shape
    assert decode is not None

    def run(codes: Array, result: Array, exponents: Array) -> None:
        numbers = temporary(shape)
        decode(codes, numbers, exponents)
        program.executable(numbers, result)

    return run
