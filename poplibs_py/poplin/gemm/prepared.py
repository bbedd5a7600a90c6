"""An operand packed once for many products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...checks import check_shape, instance, one_of
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format
from ...immutable import Constant, kind_of
from ...ops import Operand, run_told
from ...program import key_by_parts, result_array
from ...program.operands import aligned_bytes
from ...target import Target
from .lower import Lowered, lower, lower_prepare
from .options import GemmOptions
from .params import GemmParams, contiguous, layout_of
from .plan import Epilogue, GemmPlan, prepared_bytes
from .search import FEW, meets_packed, plan_gemm

SIDES = ("right", "left")
"""Sides of a product that an operand is prepared for."""

_TYPICAL = 1024  # rows of what a right operand is multiplied with, columns for a left one


class PreparedMatrix(Constant):
    """An operand of products, packed as the kernels read it.

    Made by `poplibs_py.poplin.prepare`; ``matmul(a, prepared)``, or ``matmul(prepared, b)`` for a left operand, then
    packs nothing of it.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of the matrix.
    format : Format
        Its format before packing.
    side : {"right", "left"}
        Which operand it is.
    nbytes : int
        Bytes that the packed form takes. The original of a left operand is kept too: products with many columns, and
        16-bit formats with very few, run fastest from that.
    """

    __slots__ = ("__weakref__", "_packed", "_parts", "_plan", "_whole", "format", "shape", "side")

    _KEEP = "the array, to prepare again"

    shape: tuple[int, int]
    format: Format
    side: str
    _plan: GemmPlan
    _packed: Operand
    _whole: Operand | None
    _parts: tuple[object, ...]

    def __init__(self, w: Operand, partner: Format, options: GemmOptions, target: Target, side: str = "right") -> None:
        if not isinstance(w, Operand):
            raise bad_type("w", type(w).__name__, "what poplin.prepare makes one from")
        check_shape("w", w, len(w.shape) == 2, "a matrix")
        is_left, typical = side == "left", _TYPICAL
        m, k, n = (*w.shape, typical) if is_left else (typical, *w.shape)
        a, b = contiguous(partner, m, k), contiguous(partner, k, n)
        a, b = (layout_of(w), b) if is_left else (a, layout_of(w))
        params = GemmParams(m, n, k, a, b, contiguous(FP32, m, n))
        plan = plan_gemm(params, options, Epilogue(), target, packing=True, left=is_left)
        packed = aligned_bytes(prepared_bytes(plan))
        made = lower_prepare(plan)
        scales = None if w.scales is None else w.scales.array
        arrays = made.arrange(w.array, w.array, packed, None, scales, scales)
        run_told("poplin.prepare", lambda: (f"{w.shape} {w.format}", *made.told()[1:]), made.executable, *arrays,
                 written=packed)
        # A call that meets an infinity needs numbers whole that are split in parts.
        whole = _copied(w) if is_left or plan.parts != (1, 1) else None
        kind = kind_of("PreparedMatrix", plan, side, w.shape, w.format, whole and layout_of(whole))
        name = "a" if is_left else "b"
        held: list[Array] = [packed]
        if whole is not None:
            held += [whole.array] if whole.scales is None else [whole.array, whole.scales.array]
            whole = replace(whole, place=(name, 1), scales=whole.scales and replace(whole.scales, place=(name, 2)))
        self._set(shape=w.shape, format=w.format, side=side, _plan=plan, _packed=Operand(packed, None, place=(name, 0)),
                  _whole=whole, _parts=(kind, *held))

    @property
    def nbytes(self) -> int:
        """Bytes of the packed form."""
        return self._packed.array.nbytes + (0 if self._whole is None else self._whole.array.nbytes)

    def __repr__(self) -> str:
        return f"PreparedMatrix(shape={self.shape}, dtype={self.format}, side={self.side!r}, nbytes={self.nbytes})"

    def stand_in(self, name: str) -> Operand:
        """Return what has this matrix's shape and format, for the operand `name`."""
        one_of("name", name, ("a", "b"))
        if name != self._name:
            raise bad_type(
                name, f"a matrix prepared for the {self.side}",
                f"an array, or one prepared for this side: prepare(w, side={'left' if name == 'a' else 'right'!r})")
        dtype = self.format.dtype or self.format.code_dtype
        return Operand(np.broadcast_to(np.zeros((), dtype), self.shape), self.format)

    def lowered(self, params: GemmParams, options: GemmOptions, epilogue: Epilogue,
                target: Target) -> tuple[Lowered, Operand, Operand | None]:
        """Return the product with this operand and an `epilogue` lowered; what it runs on, and what that was."""
        for name, value, kind in (("params", params, GemmParams), ("options", options, GemmOptions),
                                  ("epilogue", epilogue, Epilogue), ("target", target, Target)):
            instance(name, value, kind, f"of type {kind.__name__}")
        left, whole = self.side == "left", self._whole
        mine, other = (params.a, params.b) if left else (params.b, params.a)
        if whole is None:
            lies = replace(contiguous(self.format, *self.shape), batch=mine.batch)
        else:
            lies = layout_of(whole, params.batch)
        params = replace(params, a=lies) if left else replace(params, b=lies)
        takes = meets_packed(self._plan, params, options, left=left, whole=whole is not None)
        if whole is not None and ((left and not self._gains(params)) or (not takes and not other.plain)):
            return lower(plan_gemm(params, options, epilogue, target)), whole, None
        if not takes:
            planned = self._plan.product.b if left else self._plan.product.a
            name, its = ("b", "a") if left else ("a", "b")
            mode = options.reproducible
            if mode != self._plan.options.reproducible and other.format == planned.format:
                allowed = f"{not mode}, as {its} was prepared: prepare(w, reproducible={mode})"
                raise bad_argument("reproducible", mode, allowed)
            raise bad_type(name, f"{other.format}, where {its} was prepared for {planned.format}",
                           f"the format that {its} was prepared for: prepare(w, {name}_dtype=...)")
        made = lower(plan_gemm(params, options, epilogue, target, self._plan, left=left))
        packed = self._packed if whole is None else replace(self._packed, scales=whole.scales)
        return made, packed, whole if made.plan.fallback else None

    def _gains(self, params: GemmParams) -> bool:
        """Whether the transposed product is faster: its vectors are full where those of few columns are not.

        From two vectors of columns on, the rows are read where they lie; dot products of few columns read them so too,
        and numbers of 16 bits are half of what is read.
        """
        full = 2 * self._plan.kernel.grain[1]
        least = FEW if self.format.bits == 16 else 0
        return params.m > FEW and least < params.n < full

    @property
    def _name(self) -> str:
        return "a" if self.side == "left" else "b"


def _copied(w: Operand) -> Operand:
    """Return an operand's copy, in C order and on a page of its own."""
    copy = result_array(w.shape, w.array.dtype)
    copy[...] = w.array
    return replace(w, array=copy, scales=w.scales and _copied(w.scales))


key_by_parts(PreparedMatrix)
