"""Assertions that tell, when they fail, all that is needed to find out why."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import instance
from ..errors import InvalidTypeError, bad_argument
from ..formats import Format, QuarterArray, format_of
from ..formats.bounds import Ball
from ..popsparse import BlockSparseMatrix
from .exact import codes_of, decode_exact, round_exact, values_of
from .ulp import error_over_bound, ulp_error

_SHOWN = 5


def assert_within_bound(got: Any, ball: Ball | tuple[Ball, ...], *, dtype: Any = None, exact: ArrayLike | None = None,
                        kernel_name: str | None = None, reproduce: str | None = None) -> None:
    """Fail unless every result lies in its ball.

    Parameters
    ----------
    got : array_like
        Results, of a format's dtype, float64, a `QuarterArray`, codes of `dtype`, or a `BlockSparseMatrix`, whose
        stored blocks count.
    ball : Ball or tuple of Ball
        The exact results, and how far `got` may lie from them: what `poplibs_py.testing.bound` returns. Of the shape of
        `got`, or one for each of several results.
    dtype : Format, dtype or str, optional
        The results' format; that of their dtype by default.
    exact : array_like of float or Fraction, optional
        Exact results to show; the balls' centres by default, exact to float64.
    kernel_name : str, optional
        What computed them, for the message.
    reproduce : str, optional
        A line that computes them again, for the message.

    Raises
    ------
    AssertionError
        With index, exact value, exact value rounded to the format, result, error in ulps, bound, kernel and the line
        that reproduces it, for the worst results.

    Examples
    --------
    >>> from poplibs_py.formats.bounds import matmul_ball
    >>> ball = matmul_ball([[1.0, 2.0]], [[3.0], [4.0]])
    >>> assert_within_bound(np.float32([[11.0]]), ball)
    >>> assert_within_bound(np.float32([[11.1]]), ball, kernel_name="a broken one")
    Traceback (most recent call last):
        ...
    AssertionError: 1 of 1 results outside their bounds; the worst:
      [0, 0]: exact 11, rounded 11.0 (0x41300000), got 11.100000381469727 (0x4131999a), 104858 ulps, bound 1.31e-06 ...
      kernel: a broken one
    """
    if isinstance(ball, tuple):  # of several results
        instance("got", got, (tuple, list), f"a tuple of {len(ball)} results")
        for one, of_one in zip(got, ball, strict=True):
            assert_within_bound(one, of_one, dtype=None, kernel_name=kernel_name, reproduce=reproduce)
        return
    instance("ball", ball, Ball, "a Ball")
    got = numbers_of(got)
    form = _format(got, dtype)
    values = values_of(got, form)
    if values.shape != ball.shape:
        raise AssertionError(f"got shape {values.shape}; the exact result has shape {ball.shape}")
    inside = ball.contains(values)
    if inside.all():
        return
    share = np.where(inside, -1.0, error_over_bound(values, ball))
    worst = np.argsort(-share, axis=None, kind="stable")[:_SHOWN]
    indices = [tuple(int(i) for i in np.unravel_index(flat, share.shape)) for flat in worst if not inside.flat[flat]]
    truth = ball.centre if exact is None else np.asarray(exact)
    lines = [f"{(~inside).sum()} of {inside.size} results outside their bounds; the worst:"]
    lines += [_line(index, truth[index], got, values[index], form, ball[index]) for index in indices]
    raise AssertionError("\n".join(lines + footer(kernel_name, reproduce)))


def assert_same_bits(got: Any, want: Any, *, dtype: Any = None, kernel_name: str | None = None,
                     reproduce: str | None = None) -> None:
    """Fail unless two arrays have the same dtype, shape and codes; all NaNs count as one.

    Parameters
    ----------
    got, want : array_like
        Results and what they must be.
    dtype : Format, dtype or str, optional
        The format of codes.
    kernel_name, reproduce : str, optional
        As in `assert_within_bound`.

    Examples
    --------
    >>> assert_same_bits(np.float16([0.0, np.nan]), np.float16([0.0, -np.nan]))
    >>> assert_same_bits(np.float16([0.0]), np.float16([-0.0]))
    Traceback (most recent call last):
        ...
    AssertionError: 1 of 1 results differ; the first:
      [0]: want -0.0 (0x8000), got 0.0 (0x0000), 0 ulps apart
    """
    form = _format(got, dtype)
    if form is None:
        raise bad_argument("got", got, "an array of a format's dtype, or codes with dtype")
    left, right = codes_of(got, form, "got"), codes_of(want, form, "want")
    if left.shape != right.shape:
        raise AssertionError(f"got shape {left.shape}; want shape {right.shape}")
    if (left == right).all():
        return
    values, due = values_of(left, form), values_of(right, form)
    differ = (left != right) & ~(np.isnan(values) & np.isnan(due))
    if not differ.any():
        return
    lines = [f"{differ.sum()} of {differ.size} results differ; the first:"]
    with np.errstate(all="ignore"):
        for index in map(tuple, np.argwhere(differ)[:_SHOWN].tolist()):
            apart = float(ulp_error(values[index], due[index], form))
            lines.append(f"  {list(index)}: want {due[index]} ({_hex(right[index], form)}), got {values[index]} "
                         f"({_hex(left[index], form)}), {apart:.6g} ulps apart")
    raise AssertionError("\n".join(lines + footer(kernel_name, reproduce)))


def numbers_of(got: Any) -> Any:
    """Return a matrix's stored blocks, with their scale where they have one; anything else as it is."""
    if isinstance(got, BlockSparseMatrix):
        return got.to_quarter() if got.format.bits <= 8 else got.blocks
    return got


def _format(got: Any, dtype: Any) -> Format | None:
    if dtype is not None:
        return format_of(dtype)
    try:
        return format_of(getattr(got, "format", got))
    except InvalidTypeError:
        return None  # float64, of a reference


def _line(index: tuple[int, ...], exact: Any, got: Any, value: float, form: Format | None, ball: Ball) -> str:
    number = float(exact)
    share = float(error_over_bound(np.asarray(value), ball))
    bound = f"bound {float(ball.radius):.3g} (error is {share:.3g} of it)"
    if form is None:
        return f"  {list(index)}: exact {number:.17g}, got {value:.17g}, {bound}"
    scale = 1.0
    if isinstance(got, QuarterArray):
        scale = 2.0 ** int(np.broadcast_to(got.element_scales(), got.shape)[index])
    held = exact if isinstance(exact, Fraction) else Fraction(number) if np.isfinite(number) else number
    rounded = round_exact(held / Fraction(scale) if isinstance(held, Fraction) else held, form)
    shown = float(decode_exact(rounded, form)) * scale
    code = round_exact(Fraction(value / scale) if np.isfinite(value) else float(value), form)
    ulps = float(ulp_error(np.asarray(value / scale), number / scale, form))
    return (f"  {list(index)}: exact {number:.17g}, rounded {shown} ({_hex(rounded, form)}), "
            f"got {value} ({_hex(code, form)}), {ulps:.6g} ulps, {bound}")


def _hex(code: NDArray[Any] | int, form: Format) -> str:
    return f"0x{int(code):0{(form.bits + 3) // 4}x}"


def footer(kernel_name: str | None, reproduce: str | None) -> list[str]:
    """Return the lines that end a message: what computed the results, and how to compute them again."""
    lines = [f"  kernel: {kernel_name}"] if kernel_name is not None else []
    return lines + ([f"  again: {reproduce}"] if reproduce is not None else [])
