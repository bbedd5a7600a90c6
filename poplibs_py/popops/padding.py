"""`pad`: an array with more on its sides, or less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import all_of, bad_argument, bad_type, one_of, whole
from ..formats import Array, Format
from ..ops import RESULT, Request, on_tiles, op, planned_on, receive
from ..target import Target
from ._made import code_of, coded, write
from ._ordering import numbers
from .making_steps import copy_plan
from .sequence import SequenceBuilder

Sides = tuple[tuple[int, int], ...]

_MOST = 1 << 48
_WHOLE = (int, np.integer)
COMPUTED = ("linear_ramp", "maximum", "mean", "median", "minimum")
"""Modes whose numbers are computed from those of the operand."""


PERIODS: dict[str, Callable[[int], int]] = {
    "reflect": lambda n: max(1, 2 * (n - 1)), "symmetric": lambda n: 2 * n, "wrap": lambda n: n}
"""Modes whose numbers are those of the operand again and again: after how many, given its extent."""

_NOT_COPIED = ("wrap", "symmetric", *COMPUTED)  # on a modelled machine
_MODES = ("constant", "empty", "edge", *PERIODS, *COMPUTED)


@op("popops.pad", poplibs="popops::pad", bound="popops.encoding_bound:pad_bound",
    draws="testing.encoding_calls:pad_calls")
def pad(x: Any, pad_width: int | Sequence[Any], mode: str = "constant", *, constant_values: Any = 0,
        out: Any = None, target: Target | str | None = None) -> Any:
    """Put numbers around an array, or take some away (``popops::pad``, NumPy's ``pad``).

    Parameters
    ----------
    x : array_like
        float32, float16, bfloat16, FP8 or integer numbers or truth values, of any shape and strides. Lists become
        float32.
    pad_width : int or sequence
        How many elements before and after: one number, a pair, or a pair for each axis. Negative ones take so many
        away, before anything is put around what is left.
    mode : str, optional
        What is put there: ``"constant"`` (default) the `constant_values`; ``"edge"`` the outermost element;
        ``"reflect"`` and ``"symmetric"`` the array mirrored, without and with its outermost element; ``"wrap"`` its
        other end; ``"maximum"``, ``"minimum"``, ``"mean"``, ``"median"`` those of each row along the axis;
        ``"linear_ramp"`` a ramp down to zero; ``"empty"``, which NumPy leaves open, zeros.
    constant_values : number or sequence, optional
        One number, a pair for before and after, or a pair for each axis; each is rounded to the format of `x`.
    out : array, optional
        Where the result goes, of the dtype of `x`.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the dtype of `x`.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value, or more than nothing is asked of an empty axis. Nothing has been
        written then.
    UnsupportedError
        If `target` names a machine that has no vertex for it.

    Notes
    -----
    Axes are padded one after another, each with what the former left there. What is copied is copied bit for bit.
    Means, medians and ramps are computed in float64 by NumPy and rounded once; those of integers as NumPy does.
    PopLibs has constants, ``EDGE`` and ``REFLECT``.

    Examples
    --------
    >>> popops.pad([1.0, 2.0, 3.0], (2, 1), "reflect"), popops.pad([1.0, 2.0, 3.0], (-1, 2))
    (array([3., 2., 1., 2., 3., 2.], dtype=float32), array([2., 3., 0., 0.], dtype=float32))
    """
    source, element = numbers("x", x)
    one_of("mode", mode, _MODES)
    widths = sides_of(pad_width, source.shape)
    codes = [[code_of("constant_values", value, element) for value in pair]
             for pair in _pairs("constant_values", constant_values, source.array.ndim)]
    kept = tuple((max(0, -before), n - max(0, -after)) for n, (before, after) in zip(source.shape, widths, strict=True))
    more = tuple((max(0, before), max(0, after)) for before, after in widths)
    for d, ((begin, end), pair) in enumerate(zip(kept, more, strict=True)):
        if mode not in ("constant", "empty") and begin == end and any(pair):
            raise bad_argument("x", f"no elements along axis {d}", f"some to pad with in mode {mode!r}")
    shape = tuple(end - begin + sum(pair) for (begin, end), pair in zip(kept, more, strict=True))
    receiver = receive("out", out, shape, None, element, (source,), contiguous=True)
    if receiver.format != element:
        raise bad_argument("out", f"dtype {receiver.format}", f"{element}, that of x")
    made, problem = prod(shape), f"pad {list(source.shape)} to {list(shape)} {element}"
    plan, lacking = planned_on("popops.pad", target, lambda machine: f"in mode {mode!r}" if mode in _NOT_COPIED else
                               copy_plan("popops.pad", machine, element, source.array.size, made, problem))
    inside = tuple(slice(*ends) for ends in kept)

    steps = SequenceBuilder(source.array, receiver.array)
    array, result = steps.operands
    if mode in COMPUTED:
        steps.run(lambda x, result: _compute(x, result, more, mode, element), array[inside], result)
    else:
        _surround(steps, array[inside], result, more, mode, codes)
    tell = steps.told("pad", source.shape, element)
    return on_tiles(Request(steps.made(), (source, RESULT), receiver, tell, lacking=lacking), plan)


def sides_of(pad_width: Any, shape: tuple[int, ...]) -> Sides:
    """Return how much is put before and after along each axis, checked."""
    pairs = _pairs("pad_width", pad_width, len(shape))
    found = tuple((whole("pad_width", before, -_MOST, _MOST), whole("pad_width", after, -_MOST, _MOST))
                  for before, after in pairs)
    for d, (n, (before, after)) in enumerate(zip(shape, found, strict=True)):
        if max(0, -before) + max(0, -after) > n:
            raise bad_argument("pad_width", (before, after), f"what takes at most {n} elements away along axis {d}")
    return found


def _pairs(name: str, value: Any, rank: int) -> list[tuple[Any, Any]]:
    """One value, a pair or a pair for each axis, as that."""
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.ndim <= 2 and value.size <= 128 else None
    if not isinstance(value, (list, tuple)):
        if value is None or isinstance(value, (str, bytes)) or hasattr(value, "__iter__"):
            raise bad_type(name, value, "a number, a pair of them, or a pair for each axis")
        return [(value, value)] * rank
    several = all_of(name, value, object, "a number, a pair of them, or a pair for each axis")
    nested = [isinstance(item, (list, tuple)) for item in several]
    if not any(nested):
        if len(several) not in (1, 2):
            raise bad_argument(name, value, "a number, a pair of them, or a pair for each axis")
        return [(several[0], several[-1])] * rank
    if not all(nested) or len(several) not in (1, rank) or any(len(item) not in (1, 2) for item in several):
        raise bad_argument(name, value, f"a pair for each of {rank} axes")
    made = [(item[0], item[-1]) for item in several]
    return made * rank if len(made) == 1 else made


def _surround(steps: SequenceBuilder, x: Array, result: Array, more: Sides, mode: str,
              codes: list[list[Array]]) -> None:
    """Copy the numbers, then what is around them, an axis after another."""
    at = [slice(before, before + n) for n, (before, _) in zip(x.shape, more, strict=True)]
    steps.copy(x, result[tuple(at)])
    for d, (n, (before, _)) in enumerate(zip(x.shape, more, strict=True)):
        at[d] = slice(None)
        rows = np.moveaxis(result[tuple(at)], d, 0)
        if mode in PERIODS:
            _repeat(steps, rows, before, before + n, mode)
            continue
        for side, to in enumerate((rows[:before], rows[before + n:])):
            if to.size:
                zero = np.zeros((), result.dtype)
                edge = before + side * (n - 1)
                like = {"edge": rows[edge:edge + 1], "constant": codes[d][side], "empty": zero}[mode]
                steps.copy(np.broadcast_to(like, to.shape), to)


def _repeat(steps: SequenceBuilder, rows: Array, begin: int, end: int, mode: str) -> None:
    """Copy rows [begin, end) around themselves: mirrored where the mode is so, then in whole periods.

    There are twice as many periods each time, so that a wide side takes few copies.
    """
    period = PERIODS[mode](end - begin)
    if mode != "wrap":
        skipped = int(mode == "reflect")  # the outermost
        n = end - begin - skipped
        right, left = min(n, len(rows) - end), min(n, begin)
        steps.copy(rows[begin:begin + n][::-1][:right], rows[end:end + right])
        steps.copy(rows[begin + skipped:begin + skipped + left][::-1], rows[begin - left:begin])
        begin, end = begin - left, end + right
    while end < len(rows):
        step = (end - begin) // period * period
        count = min(step, len(rows) - end)
        steps.copy(rows[end - step:end - step + count], rows[end:end + count])
        end += count
    while begin > 0:
        step = (end - begin) // period * period
        count = min(step, begin)
        steps.copy(rows[begin - count + step:begin + step], rows[begin - count:begin])
        begin -= count


def _compute(x: Array, result: Array, more: Sides, mode: Any, element: Any) -> None:
    """What NumPy pads with, rounded once."""
    with np.errstate(all="ignore"):
        if not isinstance(element, Format):
            result[...] = np.pad(x, more, mode)
            return
        write(result, coded(np.asarray(np.pad(x.astype(np.float64), more, mode)), element))
        inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, more, strict=True))
        result[inside] = x
