"""Requests of strided operations: elementwise ones, and casts, which are the identity."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..config import settings
from ..ops import RESULT, VALUES, Array, Operand, Receiver, Request
from ._strided import StridedOperand, StridedParams, lower
from .plan import ElementwisePlan

__all__ = ["has_scale", "in_place", "strided_request"]


def strided_request(op: str | None, x: Operand, receiver: Receiver, overflow: str, rounding: str = "nearest-even",
                    random_bits: int = 31, seed: int | None = None, plan: ElementwisePlan | None = None,
                    lacking: str = "") -> Request:
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
    plan : ElementwisePlan, optional
        That of a modelled machine; by default it runs on this CPU.
    lacking : str, optional
        Why it does, where a profile names another machine.
    """
    written = receiver.operand
    params = StridedParams(op, x.shape, (_lies(x),), (_lies(written),), rounding, overflow, random_bits)
    program = lower(params, settings.num_threads, plan and plan.mapping)
    exponents: list[Operand | Array] = [] if x.scales is None else [x.scales]
    if written.scales is not None:  # those of a new result are the same in every call
        exponents.append(written.scales if receiver.given is not None else written.scales.array)
    words = () if seed is None else (seed,)
    operands = (x, RESULT, *exponents, *(VALUES,) * len(words))

    def told() -> tuple[str, str, Any]:
        return str(params), program.kernel, plan or program

    def measured() -> dict[str, Any]:
        exchanged = program.executable.program.exchanged_bytes
        return {} if plan is None else {"tile_bytes": plan.tile_bytes(), "exchanged_bytes": exchanged}

    return Request(program.executable, operands, receiver, told, words, measure=measured, lacking=lacking)


def in_place(x: Operand, receiver: Receiver) -> bool:
    """Whether the result takes the operand's place."""
    return receiver.given is not None and receiver.view is None and np.may_share_memory(x.array, receiver.array)


def has_scale(x: Operand | Receiver) -> bool:
    """Whether codes stand for other numbers than their format's."""
    return bool(x.scale) or x.scales is not None


def _lies(x: Operand) -> StridedOperand:
    return StridedOperand(x.format, x.array.strides, x.scale, x.block_shape or None)
