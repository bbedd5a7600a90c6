"""Requests of strided operations: elementwise ones, and casts, which are the identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..config import settings
from ..formats import Array
from ..ops import AS_ASKED, RESULT, VALUES, Operand, Placed, Receiver, Request
from ._steps import Chain
from ._strided import StridedOperand, StridedParams, lower


def strided_request(op: str | None, xs: Sequence[Operand], receiver: Receiver, overflow: str,
                    rounding: str = "nearest-even", random_bits: int = 31, seed: int | None = None,
                    placed: Placed[Any] = AS_ASKED, chain: Chain | None = None,
                    constant: Sequence[bool] = ()) -> Request:
    """Describe an elementwise operation; None is the identity, of one operand.

    Parameters
    ----------
    op : str or None
        The kernels' name of it.
    xs : sequence of Operand
        Of one shape.
    receiver : Receiver
    overflow, rounding, random_bits
        How results become codes.
    seed : int, optional
        Of stochastic rounding.
    placed : Placed, optional
        By an `ElementwisePlan` or a `MapPlan` on a modelled machine.
    chain : Chain, optional
        The steps, where the operands' types do not say what they are computed in.
    constant : sequence of bool, optional
        Which operands are the same in every call of the kind.
    """
    params = StridedParams(op, receiver.shape, tuple(map(_lies, xs)), (_lies(receiver),), rounding, overflow,
                           random_bits, chain)
    program = lower(params, settings.num_threads, placed.plan and placed.plan.mapping)
    exponents: list[Operand | Array] = [x.scales for x in xs if x.scales is not None]
    if receiver.scales is not None:  # those of a new result are the same in every call
        exponents.append(receiver.scales if receiver.given is not None else receiver.scales.array)
    words = () if seed is None else (seed,)
    read = [x.array if fixed else x for x, fixed in zip(xs, constant or (False,) * len(xs), strict=True)]
    operands = (*read, RESULT, *exponents, *(VALUES,) * len(words))

    return Request(program.executable, operands, receiver, lambda: (str(params), program.kernel, program), words,
                   placed=placed)


def in_place(x: Operand, receiver: Receiver) -> bool:
    """Whether the result takes the operand's place."""
    return receiver.given is not None and receiver.view is None and np.may_share_memory(x.array, receiver.array)


def has_scale(x: Operand) -> bool:
    """Whether codes stand for other numbers than their format's."""
    return bool(x.scale) or x.scales is not None


def _lies(x: Operand) -> StridedOperand:
    return StridedOperand(x.format, x.array.strides, x.scale, x.block_shape or None)
