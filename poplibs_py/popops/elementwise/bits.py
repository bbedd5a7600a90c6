"""PopOps' operations on bits and truth values: rows of `ELEMENTWISE`, as in `unary`.

The bodies are in ``src_cython/kernels/elementwise/words.h``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...target import TargetLike
from .reference import (
    count_leading_zeros_reference,
    popcount_reference,
    shift_left_reference,
    shift_right_reference,
    shift_right_sign_extend_reference,
)
from .table import ELEMENTWISE, elementwise


@elementwise("popops::bitwiseNot", "BITWISE_NOT", np.invert, kinds="iu")
def bitwise_not(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """All bits of an integer, turned over (``popops::bitwiseNot``).

    -1 less x, of signed ones.

    Examples
    --------
    >>> popops.bitwise_not([0, 5])
    array([-1, -6])
    """


@elementwise("popops::popcount", "POPCOUNT", popcount_reference, kinds="iu")
def popcount(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """How many bits of an integer are set (``popops::popcount``).

    Of negative integers those of their two's complement.

    Examples
    --------
    >>> popops.popcount([0, 7, -1])
    array([ 0,  3, 64])
    """


@elementwise("popops::countLeadingZeros", "COUNT_LEADING_ZEROS", count_leading_zeros_reference, kinds="iu")
def count_leading_zeros(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """How many bits of an integer are 0 above the highest that is set (``popops::countLeadingZeros``).

    All of them for 0, none of a negative integer.

    Examples
    --------
    >>> popops.count_leading_zeros([0, 1, -1])
    array([64, 63,  0])
    """


@elementwise("popops::logicalNot", "LOGICAL_NOT", np.logical_not, kinds="b")
def logical_not(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """True where x is false (``popops::logicalNot``).

    Results are truth values.

    Examples
    --------
    >>> popops.logical_not([True, False])
    array([False,  True])
    """


@elementwise("popops::logicalAnd", "LOGICAL_AND", np.logical_and, kinds="b")
def logical_and(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether both are true (``popops::logicalAnd``).

    Results are truth values.

    Examples
    --------
    >>> popops.logical_and([True, False], True)
    array([ True, False])
    """


@elementwise("popops::logicalOr", "LOGICAL_OR", np.logical_or, kinds="b")
def logical_or(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether one of them is true (``popops::logicalOr``).

    Results are truth values.

    Examples
    --------
    >>> popops.logical_or([True, False], False)
    array([ True, False])
    """


@elementwise("popops::bitwiseAnd", "BITWISE_AND", np.bitwise_and, kinds="iu")
def bitwise_and(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The bits that are set in both (``popops::bitwiseAnd``).

    Integers of one type, or what holds both.

    Examples
    --------
    >>> popops.bitwise_and([12, 10], 6)
    array([4, 2])
    """


@elementwise("popops::bitwiseOr", "BITWISE_OR", np.bitwise_or, kinds="iu")
def bitwise_or(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The bits that are set in one of them (``popops::bitwiseOr``).

    Integers of one type, or what holds both.

    Examples
    --------
    >>> popops.bitwise_or([12, 10], 6)
    array([14, 14])
    """


@elementwise("popops::bitwiseXor", "BITWISE_XOR", np.bitwise_xor, kinds="iu")
def bitwise_xor(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The bits in which they differ (``popops::bitwiseXor``).

    Integers of one type, or what holds both.

    Examples
    --------
    >>> popops.bitwise_xor([12, 10], 6)
    array([10, 12])
    """


@elementwise("popops::bitwiseXnor", "BITWISE_XNOR", lambda a, b: ~(a ^ b), kinds="iu")
def bitwise_xnor(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The bits in which they do not differ (``popops::bitwiseXnor``).

    Integers of one type, or what holds both.

    Examples
    --------
    >>> popops.bitwise_xnor([12, 10], 6)
    array([-11, -13])
    """


@elementwise("popops::shiftLeft", "SHIFT_LEFT", shift_left_reference, kinds="iu")
def shift_left(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The bits of `a`, `b` places up (``popops::shiftLeft``).

    0 where `b` is negative, or all bits and more.

    Examples
    --------
    >>> popops.shift_left([1, 3], 4)
    array([16, 48])
    """


@elementwise("popops::shiftRight", "SHIFT_RIGHT", shift_right_reference, kinds="iu")
def shift_right(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The bits of `a`, `b` places down, zeros behind them, of signed integers too (``popops::shiftRight``).

    0 where `b` is negative, or all bits and more.

    Examples
    --------
    >>> popops.shift_right([16, 48], 4)
    array([1, 3])
    """


@elementwise("popops::shiftRightSignExtend", "SHIFT_RIGHT_SIGN_EXTEND", shift_right_sign_extend_reference, kinds="i")
def shift_right_sign_extend(a: object, b: object, *, out: Any = None, out_dtype: object = None,
                            target: TargetLike = None) -> Any:
    """The bits of `a`, `b` places down, its sign behind them (``popops::shiftRightSignExtend``).

    0 or -1, the sign alone, where `b` is negative, or all bits and more.

    Examples
    --------
    >>> popops.shift_right_sign_extend([16, -16], 2)
    array([ 4, -4])
    """


__all__ = [name for name in ELEMENTWISE if name in globals()]
