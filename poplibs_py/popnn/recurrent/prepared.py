"""Weights of a recurrent layer, packed once for many forward passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import bad_argument, bad_type
from ...formats import Format
from ...immutable import Constant, kind_of
from ...ops import Operand, run_told
from ...poplin.gemm.params import contiguous
from ...poplin.gemm.plan import GemmPlan
from ...poplin.gemm.search import meets_packed
from ...program import key_by_parts
from ...program.operands import aligned_bytes
from ...target import Target
from .builder import Builder, Lie
from .products import step_product

_TYPICAL = 1024  # rows of what weights are multiplied with


class PreparedWeights(Constant):
    """Weights of a recurrent layer as the kernels of its products read them; `popnn.prepare_layers` makes them.

    Attributes
    ----------
    name : str
        Which argument they are: ``weights_input``, ``weights_output`` or ``weights_projection``.
    shape : tuple of int
        Of the weights, as they were.
    format : Format
        Theirs before packing.
    gates : tuple of tuple of int
        The gates of each product, in the order that they were given in.
    plans : tuple of GemmPlan
        What each product's weights were packed under.
    """

    __slots__ = ("__weakref__", "_parts", "format", "gates", "name", "operand", "plans", "shape")

    _KEEP = "the arrays, to prepare again"

    name: str
    shape: tuple[int, ...]
    format: Format
    gates: tuple[tuple[int, ...], ...]
    plans: tuple[GemmPlan, ...]
    operand: Operand
    scale = 0

    def __init__(self, name: str, w: Operand, by_columns: bool, gates: Sequence[Sequence[int]], partner: Format,
                 target: Target) -> None:
        if not isinstance(w, Operand):
            raise bad_type("w", type(w).__name__, "what popnn.prepare_layers makes them from")
        held = w.array if w.array.ndim == 3 else w.array[None]
        held = held if w.format.bits > 8 else held.view(w.format.dtype)
        _, rows, columns = held.shape
        products = [step_product(_TYPICAL, rows, len(each) * columns, contiguous(partner, _TYPICAL, rows), w.format,
                                 by_columns, w.scale, target) for each in gates]
        packed = aligned_bytes(sum(x.nbytes for x in products))

        builder, begin = Builder(Lie(x.shape, x.strides, x.dtype) for x in (held, packed)), 0
        from_there, to = builder.arrays
        for product, each in zip(products, gates, strict=True):
            product.pack(builder, from_there, each, by_columns, False, to[begin:])
            begin += product.nbytes
        run_told("popnn.prepare_layers", lambda: (f"{name} {w.shape} {w.format}", products[0].plan.kernel.label,
                                                  products[0].plan), builder.made(), held, packed, written=packed)
        plans = tuple(x.plan for x in products)
        of_products = tuple(map(tuple, gates))
        kind = kind_of("PreparedWeights", name, plans, of_products, w.shape, w.format)
        self._set(name=name, shape=w.shape, format=w.format, gates=of_products, plans=plans,
                  operand=Operand(packed, None, place=(name, 0)), _parts=(kind, packed))

    @property
    def nbytes(self) -> int:
        """Bytes of the packed form."""
        return int(self.operand.array.nbytes)

    def __repr__(self) -> str:
        return f"PreparedWeights(name={self.name!r}, shape={self.shape}, dtype={self.format}, nbytes={self.nbytes})"

    def checked(self, partner: Format, gates: Sequence[Sequence[int]] | None = None) -> None:
        """Raise where a pass multiplies them with a `partner` or `gates` at once that they were not packed for."""
        for plan in self.plans:
            p = plan.product
            if not meets_packed(plan, replace(p, a=contiguous(partner, p.m, p.k)), plan.options):
                raise bad_type(self.name, f"weights prepared for {p.a.format}, which meet {partner}",
                               "the formats that they were prepared for: prepare_layers(..., x_dtype=, out_dtype=)")
        if gates is not None and tuple(map(tuple, gates)) != self.gates:
            raise bad_argument(self.name, "weights prepared for another cell",
                               "the cell, its cell_order and reset_after that they were prepared for")


key_by_parts(PreparedWeights)
