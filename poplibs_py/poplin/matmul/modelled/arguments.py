"""The arguments of a product on a modelled machine, checked, with batch axes as groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import bad_argument, bad_type
from ....formats import FP16, FP32, Format, QuarterArray, format_of
from ....ops import array_operand
from ....target import Target
from ...convolution import ConvPlan
from .plan import modelled_type, plan_modelled

__all__ = ["Product", "read_product"]


@dataclass(frozen=True, eq=False)
class Product:
    """A product as it was asked for.

    Attributes
    ----------
    a, b : numpy.ndarray or QuarterArray, [g, m, k] and [g, k, n]
        The operands; a QuarterArray without groups keeps its two axes.
    shape : tuple of int
        Of the result, with its batch axes.
    groups, m, n, k : int
        Sizes.
    kind : {"float", "half", "quarter"}
        The operands' type.
    out : Format
        The result's.
    """

    a: Any
    b: Any
    shape: tuple[int, ...]
    groups: int
    m: int
    n: int
    k: int
    kind: str
    out: Format

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return 0 in (self.groups, self.m, self.n, self.k)

    def planned(self, target: Target | str, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> ConvPlan:
        """Return the plan that a machine follows."""
        shapes = (self.groups, self.m, self.k), (self.groups, self.k, self.n)
        return plan_modelled(*shapes, dtype=self.kind, out_dtype=self.out, target=target, options=options, **more)


def read_product(a: Any, b: Any, out_dtype: object) -> Product:
    """Check the operands of a product and bring their batch axes together."""
    left, right = (x if isinstance(x, QuarterArray) else array_operand(name, x).array for x, name in ((a, "a"), (b, "b")))
    for name, x in (("a", left), ("b", right)):
        if len(x.shape) < 2:
            raise bad_argument(name, f"shape {x.shape}", "at least two axes")
        if isinstance(x, QuarterArray) and len(x.shape) > 3:
            raise bad_argument(name, f"shape {x.shape}", "a QuarterArray of two or three axes")
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    if right.shape[-2] != k:
        raise bad_argument("b", f"shape {right.shape} with {right.shape[-2]} rows", f"as many as a has columns, {k}")
    kind = modelled_type(_dtype(left), "a")
    if modelled_type(_dtype(right), "b") != kind:
        raise bad_type("b", f"dtype {_dtype(right)}", f"a's type, {kind}, on a modelled machine")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise bad_argument("b", f"batch shape {right.shape[:-2]}", f"what broadcasts with {left.shape[:-2]}") from None
    groups = math.prod(batch)
    fmt = (FP32 if kind == "float" else FP16) if out_dtype is None else format_of(out_dtype, "out_dtype")
    if fmt not in (FP32, FP16):
        raise bad_argument("out_dtype", fmt.name, "float32 or float16 on a modelled machine")
    shapes = (groups, m, k), (groups, k, n)
    if 0 not in (groups, m, n, k):
        left, right = (_grouped(x, batch, shape) for x, shape in zip((left, right), shapes, strict=True))
    return Product(left, right, (*batch, m, n), groups, m, n, k, kind, fmt)


def _dtype(x: Any) -> Any:
    return x.format if isinstance(x, QuarterArray) else x.dtype


def _grouped(x: Any, batch: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The operand with its batch axes as one axis of groups; a view where that is possible."""
    if isinstance(x, QuarterArray):
        if x.shape[:-2] not in ((), batch) or (len(x.shape) == 2 and shape[0] != 1):
            raise bad_argument("b", f"QuarterArray of shape {x.shape}", f"batch axes {batch}, not broadcast")
        return x
    return np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(shape)
