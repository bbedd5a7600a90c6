"""Requests of strided operations: elementwise ones, and casts, which are the identity."""

from __future__ import annotations

from ..config import settings
from ..ops import RESULT, VALUES, Array, Operand, Receiver, Request
from ._strided import StridedOperand, StridedParams, lower

__all__ = ["strided_request"]


def strided_request(op: str | None, x: Operand, receiver: Receiver, overflow: str, rounding: str = "nearest-even",
                    random_bits: int = 31, seed: int | None = None) -> Request:
    """Describe an elementwise operation of one operand; None is the identity.

    Parameters
    ----------
    op : str or None
        The kernels' name of it.
    x : Operand
    receiver : Receiver
    overflow, rounding, random_bits
        How results become codes.
    seed : int, optional
        Of stochastic rounding.
    """
    written = receiver.operand
    params = StridedParams(op, x.shape, (_lies(x),), (_lies(written),), rounding, overflow, random_bits)
    program = lower(params, settings.num_threads)
    exponents: list[Operand | Array] = [] if x.scales is None else [x.scales]
    if written.scales is not None:  # those of a new result are the same in every call
        exponents.append(written.scales if receiver.given is not None else written.scales.array)
    words = () if seed is None else (seed,)
    operands = (x, RESULT, *exponents, *(VALUES,) * len(words))
    return Request(program.executable, operands, receiver, lambda: (str(params), program.kernel, program), words)


def _lies(x: Operand) -> StridedOperand:
    return StridedOperand(x.format, x.array.strides, x.scale, x.block_shape or None)
