"""`pad`: an array with more on its sides, or less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...checks import all_of, finite, one_of, real, whole
from ...errors import bad_argument, bad_type, check_keys
from ...formats import Array, Format
from ...ops import RESULT, Request, op, place_of, receive
from ...target import TargetLike
from ..ordering.request import numbers
from ..sequence import SequenceBuilder
from .made import code_of, coded, write
from .modelled import copy_plan

Sides = tuple[tuple[int, int], ...]

_MOST = 1 << 48
COMPUTED = ("linear_ramp", "maximum", "mean", "median", "minimum")
"""Modes whose numbers are computed from those of the operand."""


PERIODS: dict[str, Callable[[int], int]] = {
    "reflect": lambda n: max(1, 2 * (n - 1)), "symmetric": lambda n: 2 * n, "wrap": lambda n: n}
"""Modes whose numbers are those of the operand again and again: after how many, given its extent."""

KEYWORDS = {"constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type",
            "symmetric": "reflect_type"} | dict.fromkeys(COMPUTED[1:], "stat_length")
"""What modes take besides, as in NumPy."""

_NOT_COPIED = ("wrap", "symmetric", *COMPUTED)  # on a modelled machine
_MODES = ("constant", "empty", "edge", *PERIODS, *COMPUTED)


@op("popops::pad", bound="popops.making.bound", draws="testing.encoding_calls")
def pad(x: Any, pad_width: int | Sequence[Any] | Mapping[int, Any], mode: str | Callable[..., Any] = "constant", *,
        constant_values: Any = None, end_values: Any = None, stat_length: Any = None, reflect_type: str | None = None,
        out: Any = None, target: TargetLike = None, **kwargs: Any) -> Any:
    """Put numbers around an array, or take some away (``popops::pad``, NumPy's ``pad``).

    Parameters
    ----------
    x : array_like
        float32, float16, bfloat16, FP8 or integer numbers or truth values, of any shape and strides. Lists become
        float32.
    pad_width : int, sequence or mapping
        How many elements before and after: one number, a pair, or a pair for each axis; or those of some axes by their
        numbers. Negative ones take so many away, before anything is put around what is left.
    mode : str or callable, optional
        What is put there: ``"constant"`` (default) the `constant_values`; ``"edge"`` the outermost element;
        ``"reflect"`` and ``"symmetric"`` the array mirrored, without and with its outermost element; ``"wrap"`` its
        other end; ``"maximum"``, ``"minimum"``, ``"mean"``, ``"median"`` those of each row along the axis;
        ``"linear_ramp"`` a ramp to `end_values`; ``"empty"``, which NumPy leaves open, zeros. A function, as NumPy
        calls it: ``mode(vector, iaxis_pad_width, iaxis, kwargs)`` writes to each row of a copy with zeros around it.
    constant_values : number or sequence, optional
        In mode ``"constant"``: one number, a pair for before and after, or a pair for each axis; each is rounded to the
        format of `x`. Zero by default.
    end_values : number or sequence, optional
        In mode ``"linear_ramp"``: the outermost numbers, in the same forms, within the limits of integers. Zero by
        default.
    stat_length : int or sequence, optional
        In modes ``"maximum"``, ``"mean"``, ``"median"`` and ``"minimum"``: of how many elements, one or more, next to
        what is put there, in the same forms. All of a row by default.
    reflect_type : str, optional
        In modes ``"reflect"`` and ``"symmetric"``: ``"even"`` (default), or ``"odd"``, twice the outermost element less
        what is mirrored.
    out : array, optional
        Where the result goes, of the dtype of `x`.
    **kwargs
        What a function is given as ``kwargs``, with those above that are of no other use to it.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the dtype of `x`.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value, or not one of the mode's, or more than nothing is asked of an
        empty axis. Nothing has been written then.
    UnsupportedError
        If `target` names a machine that has no vertex for it.

    Notes
    -----
    Axes are padded one after another, each with what the former left there. What is copied is copied bit for bit.
    Means, medians, ramps and odd reflections are computed in float64 by NumPy and rounded once; those of integers as
    NumPy does. PopLibs has constants, ``EDGE`` and ``REFLECT``.

    Examples
    --------
    >>> popops.pad([1.0, 2.0, 3.0], (2, 1), "reflect"), popops.pad([1.0, 2.0, 3.0], (-1, 2))
    (array([3., 2., 1., 2., 3., 2.], dtype=float32), array([2., 3., 0., 0.], dtype=float32))
    >>> popops.pad([1.0, 2.0, 4.0], 2, "reflect", reflect_type="odd")
    array([-2.,  0.,  1.,  2.,  4.,  6.,  7.], dtype=float32)
    """
    source, element = numbers("x", x)
    given = {"constant_values": constant_values, "end_values": end_values, "stat_length": stat_length,
             "reflect_type": reflect_type}
    given = {name: value for name, value in given.items() if value is not None} | kwargs
    if not callable(mode):
        one_of("mode", mode, _MODES)
        given = _keyword(mode, given, element, source.array.ndim)
    computed = callable(mode) or mode in COMPUTED or given.get("reflect_type") == "odd"
    widths = sides_of(pad_width, source.shape)
    kept = tuple((max(0, -before), n - max(0, -after)) for n, (before, after) in zip(source.shape, widths, strict=True))
    more = tuple((max(0, before), max(0, after)) for before, after in widths)
    for d, ((begin, end), pair) in enumerate(zip(kept, more, strict=True)):
        if not callable(mode) and mode not in ("constant", "empty") and begin == end and any(pair):
            raise bad_argument("x", f"no elements along axis {d}", f"some to pad with in mode {mode!r}")
    shape = tuple(end - begin + sum(pair) for (begin, end), pair in zip(kept, more, strict=True))
    receiver = receive("out", out, shape, None, element, contiguous=True, own="that of x")
    made, problem = prod(shape), f"pad {list(source.shape)} to {list(shape)} {element}"
    placed = place_of(pad, target, lambda machine: _lacks(mode, computed) or copy_plan(
        machine, element, source.array.size, made, problem))

    steps = SequenceBuilder(source.array, receiver.array)
    array, result = steps.operands
    inside: list[Any] = [*(slice(*ends) for ends in kept), ...]
    array = array[tuple(inside)]
    if computed:
        steps.run(lambda x, result: _compute(x, result, more, mode, element, given), array, result)
    else:
        _surround(steps, array, result, more, mode, given.get("constant_values"))
    tell = steps.told("pad", source.shape, element)
    return Request(steps.made(), (source, RESULT), receiver, tell, placed=placed)


def _keyword(mode: str, given: Mapping[str, Any], element: Any, rank: int) -> dict[str, Any]:
    """What a mode takes besides, checked: constants as codes, the others as NumPy takes them."""
    check_keys("pad()", given, tuple(dict.fromkeys(KEYWORDS.values())), keywords=True)
    for name, value in given.items():
        if name != KEYWORDS.get(mode):
            raise bad_argument(name, value, f"nothing in mode {mode!r}")
    if mode == "constant":
        pairs = _pairs("constant_values", given.get("constant_values", 0), rank)
        return {"constant_values": [[code_of("constant_values", value, element) for value in pair] for pair in pairs]}
    if "reflect_type" in given:
        one_of("reflect_type", given["reflect_type"], ("even", "odd"))
    if "stat_length" in given:
        pairs = _pairs("stat_length", given["stat_length"], rank)
        return {"stat_length": [[whole("stat_length", n, 1, _MOST) for n in pair] for pair in pairs]}
    if "end_values" in given:
        pairs = _pairs("end_values", given["end_values"], rank)
        return {"end_values": [[_end_value(value, element) for value in pair] for pair in pairs]}
    return dict(given)


def _end_value(value: Any, element: Any) -> float:
    """Where a ramp ends, as NumPy takes it."""
    if isinstance(element, Format):
        return real("end_values", value)
    if element.kind == "b":
        return finite("end_values", value, 0, 1)
    limits = np.iinfo(element)
    return finite("end_values", value, int(limits.min), int(limits.max))


def _lacks(mode: Any, computed: bool) -> str:
    """What no vertex of PopLibs does; empty where there is one."""
    if callable(mode):
        return "in a mode that is a function"
    odd = " and reflect_type 'odd'" if computed and mode not in COMPUTED else ""
    return f"in mode {mode!r}{odd}" if computed or mode in _NOT_COPIED else ""


def sides_of(pad_width: Any, shape: tuple[int, ...]) -> Sides:
    """Return how much is put before and after along each axis, checked."""
    rank = len(shape)
    pairs = [(0, 0)] * rank if isinstance(pad_width, Mapping) else _pairs("pad_width", pad_width, rank)
    if isinstance(pad_width, Mapping):
        for axis, width in pad_width.items():
            pairs[whole("pad_width", axis, -rank, rank - 1, ", an axis")] = _pairs("pad_width", width, 1)[0]
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


def _surround(steps: SequenceBuilder, x: Array, result: Array, more: Sides, mode: Any, codes: Any) -> None:
    """Copy the numbers, then what is around them, an axis after another."""
    at: list[Any] = [*(slice(before, before + n) for n, (before, _) in zip(x.shape, more, strict=True)), ...]
    steps.copy(x, result[tuple(at)])
    for d, (n, (before, _)) in enumerate(zip(x.shape, more, strict=True)):
        at[d] = slice(None)
        rows = np.moveaxis(result[tuple(at)], d, 0)
        if mode in PERIODS:
            _repeat(steps, rows, before, before + n, mode)
            continue
        for side, to in enumerate((rows[:before], rows[before + n:])):
            if to.size:
                edge = before + side * (n - 1)
                other = codes[d][side] if codes else np.zeros((), result.dtype)
                steps.copy(np.broadcast_to(rows[edge:edge + 1] if mode == "edge" else other, to.shape), to)


def _repeat(steps: SequenceBuilder, rows: Array, begin: int, end: int, mode: str) -> None:
    """Copy rows [begin, end) around themselves: mirrored where the mode is so, then in whole periods.

    There are twice as many periods each time, so that a wide side takes few copies.
    """
    period = PERIODS[mode](end - begin)
    if mode != "wrap":
        skipped = int(mode == "reflect")  # the outermost
        n = max(0, end - begin - skipped)
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


def _compute(x: Array, result: Array, more: Sides, mode: Any, element: Any, given: Mapping[str, Any]) -> None:
    """What NumPy pads with, rounded once; a function is given numbers of their own dtype."""
    width = more or 0  # NumPy knows no pairs for no axes
    if callable(mode):
        result[...] = np.pad(x, width, mode, **given)
        return
    with np.errstate(all="ignore"):
        if not isinstance(element, Format):
            result[...] = np.pad(x, width, mode, **given)
            return
        write(result, coded(np.asarray(np.pad(x.astype(np.float64), width, mode, **given)), element))
        inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, more, strict=True))
        result[inside] = x
