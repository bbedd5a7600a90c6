"""The arguments of a product on a modelled machine, checked, with batch axes as groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....errors import bad_argument, bad_type
from ....formats import FP16, FP32, Format, format_of
from ....ops import Operand
from ....target import Target
from ...convolution import ConvPlan
from ..params import result_shape
from .plan import modelled_type, plan_modelled

__all__ = ["Product", "grouped", "read_product"]


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

    @property
    def groups(self) -> int:
        """Batch entries."""
        return math.prod(self.batch)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return 0 in (self.groups, self.m, self.n, self.k)

    def planned(self, target: Target | str, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> ConvPlan:
        """Return the plan that a machine follows."""
        shapes = (self.groups, self.m, self.k), (self.groups, self.k, self.n)
        return plan_modelled(*shapes, dtype=self.kind, out_dtype=self.out, target=target, options=options, **more)


def read_product(a: Operand, b: Operand, out_dtype: object) -> Product:
    """Check the operands of a product."""
    for name, x in (("a", a), ("b", b)):
        if x.array.ndim < 2:
            raise bad_argument(name, f"shape {x.shape}", "at least two axes")
        if x.scales is not None:
            raise bad_argument(name, "a QuarterArray with many scales", "one scale: modelled machines have no more")
    batch, shape, (m, k, n) = result_shape(a, b)
    kind = modelled_type(a.format, "a")
    if modelled_type(b.format, "b") != kind:
        raise bad_type("b", f"format {b.format}", f"a's type, {kind}, on a modelled machine")
    fmt = (FP32 if kind == "float" else FP16) if out_dtype is None else format_of(out_dtype, "out_dtype")
    if fmt not in (FP32, FP16):
        raise bad_argument("out_dtype", fmt.name, "float32 or float16 on a modelled machine")
    return Product(shape, batch, m, n, k, kind, fmt)


def grouped(x: Operand, product: Product) -> Operand:
    """Return an operand with its batch axes as one axis of groups, and where strides cannot say that, a copy."""
    matrix = x.shape[-2:]
    array = np.broadcast_to(x.array, (*product.batch, *matrix)).reshape(product.groups, *matrix)
    place = x.place if np.may_share_memory(array, x.array) else None
    made = replace(x, array=array, place=place)
    return made if array.flags.aligned else made.copied()
