"""A product for a modelled machine: its operands checked, with batch axes as groups, and stated as a convolution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...checks import as_shape
from ...errors import bad_argument
from ...formats import Format, format_of
from ...ops import Operand, result_format
from ...target import Target
from ...target.types import data_type
from ..gemm.params import result_shape
from ..tile_conv import ConvParams, ConvPlan, matmul_params, plan_convolution
from ..tile_conv.params import MACS_LIMIT, VOLUME_LIMIT
from .options import conv_options

TYPES = ("float", "half", "quarter")
"""Number types of modelled products."""


@dataclass(frozen=True)
class Product:
    """A product as it was asked for.

    Attributes
    ----------
    shape : tuple of int
        Of the result, with its batch axes.
    batch : tuple of int
        Those, broadcast.
    m, n, k : int
        Sizes.
    kind : {"float", "half", "quarter"}
        The operands' type.
    out : Format
        The result's.
    """

    shape: tuple[int, ...]
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    kind: str
    out: Format

    def planned(self, target: Target | str, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> ConvPlan:
        """Return the plan that a machine follows."""
        params = matmul_params(math.prod(self.batch), self.m, self.k, self.n, self.kind, self.out)
        return plan_convolution(params, target=target, options=conv_options(options, more))

    def grouped(self, x: Operand) -> Operand:
        """Return an operand with its batch axes as one axis of groups, and where strides cannot say that, a copy."""
        matrix = x.shape[-2:]
        array = np.broadcast_to(x.array, (*self.batch, *matrix)).reshape(math.prod(self.batch), *matrix)
        place = x.place if np.may_share_memory(array, x.array) else None
        made = replace(x, array=array, place=place)
        return made if array.flags.aligned else made.copied()


def product_of(a: Operand, b: Operand, out_dtype: object) -> Product:
    """Describe a product of operands that a machine has vertices for, once their shapes fit."""
    batch, shape, (m, k, n) = result_shape(a, b)
    kind = data_type("a", a.format, TYPES)
    fmt = result_format(a, b) if out_dtype is None else format_of(out_dtype, "out_dtype")
    return Product(shape, batch, m, n, k, kind, fmt)


def stated(a_shape: Sequence[int], b_shape: Sequence[int], dtype: object, out_dtype: object) -> ConvParams:
    """Check shapes and types, and state the product as a convolution."""
    a, b = (as_shape(name, shape, 2, VOLUME_LIMIT) for name, shape in (("a_shape", a_shape), ("b_shape", b_shape)))
    if len(a) > 2 < len(b) and a[:-2] != b[:-2]:
        raise bad_argument("b_shape", b, f"the same groups as a_shape {a}, or none")
    if a[-1] != b[-2]:
        raise bad_argument("b_shape", b, f"{a[-1]} rows, the columns of a_shape {a}")
    groups, (m, k), n = math.prod(a[:-2] or b[:-2]), a[-2:], b[-1]
    for name, got, elements in (("a_shape", str(a), m * k), ("b_shape", str(b), k * n),
                                ("a_shape and b_shape", f"{a} and {b}", m * n)):
        if groups * elements >= VOLUME_LIMIT:
            raise bad_argument(name, got, f"operands and a result of fewer than {VOLUME_LIMIT} elements")
    if groups * m * k * n >= MACS_LIMIT:
        raise bad_argument("a_shape and b_shape", f"{a} and {b}", "fewer than 2**56 multiply-accumulates")
    kind = data_type("dtype", dtype, TYPES)
    made = None if out_dtype is None else data_type("out_dtype", out_dtype, TYPES)
    return matmul_params(groups, m, k, n, kind, made)
