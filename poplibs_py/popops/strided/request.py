"""Requests of strided operations: elementwise ones, and casts, which are the identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...config import settings
from ...formats import Array
from ...ops import AS_ASKED, RESULT, VALUES, Operand, OwnNumber, Placed, Receiver, Request
from ...program import Executable
from .lower import StridedOperand, StridedParams, lower
from .steps import Chain


def strided_request(op: str | None, xs: Sequence[Operand], receiver: Receiver, overflow: str,
                    rounding: str = "nearest-even", random_bits: int = 31, seed: int | None = None,
                    placed: Placed[Any] = AS_ASKED, chain: Chain | None = None,
                    constant: Sequence[bool] = (), own: Sequence[OwnNumber | None] = (),
                    values: tuple[int, ...] = ()) -> Request:
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
    own, values : sequence of OwnNumber or None, tuple of int, optional
        Which operands are numbers that each call has of its own, and the words, as `own_numbers` returns them.
    """
    each = own or (None,) * len(xs)
    lies = tuple(lies_of(x)._replace(own=number) for x, number in zip(xs, each, strict=True))
    params = StridedParams(op, receiver.shape, lies, (lies_of(receiver),), rounding, overflow, random_bits, chain)
    program = lower(params, settings.num_threads, placed.plan and placed.plan.mapping)
    exponents: list[Operand | Array] = [x.scales for x in xs if x.scales is not None]
    if receiver.scales is not None:  # those of a new result are the same in every call
        exponents.append(receiver.scales if receiver.given is not None else receiver.scales.array)
    fixed = constant or (False,) * len(xs)
    read = [VALUES if number else x.array if same else x for x, same, number in zip(xs, fixed, each, strict=True)]
    operands = (*read, RESULT, *exponents, *(VALUES,) * (seed is not None))
    return Request(program.executable, operands, receiver, lambda: (str(params), program.kernel, program),
                   values if seed is None else (seed,), placed=placed)


def has_scale(x: Operand) -> bool:
    """Whether codes stand for other numbers than their format's."""
    return bool(x.scale) or x.scales is not None


def lies_of(x: Operand) -> StridedOperand:
    """Return how an operand lies."""
    return StridedOperand(x.format, x.array.strides, x.scale, x.block_shape or None)


def decoding(x: Operand, numbers: StridedOperand) -> Executable:
    """Return what casts an operand with scales of blocks, its second operand, to numbers that lie so."""
    params = StridedParams(None, x.shape, (lies_of(x),), (numbers,), "nearest-even", "inf")
    return lower(params, settings.num_threads).executable
