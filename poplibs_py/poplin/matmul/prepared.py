"""An operand packed once for many products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type
from ...formats import Format, format_of
from ...target import Target
from .arguments import Array, read_call
from .lower import lower_prepare, program_of
from .options import MatmulOptions
from .params import MatmulParams, Operand
from .plan import Epilogue, HostPlan, panel_format, plan_host, prepared_bytes

__all__ = ["PreparedMatrix"]

_TYPICAL_ROWS = 1024


class PreparedMatrix:
    """The right operand of products, packed as the kernels read it.

    Made by `poplibs_py.poplin.prepare`; `matmul(a, prepared)` then packs nothing of it.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of the matrix.
    format : Format
        Its format before packing.
    nbytes : int
        Bytes that the packed form takes.
    """

    def __init__(self, w: Array, a_format: Format, options: MatmulOptions, target: Target) -> None:
        if w.ndim != 2:
            raise bad_argument("w", f"shape {w.shape}", "a matrix")
        self.shape: tuple[int, int] = (w.shape[0], w.shape[1])
        self.format = format_of(w)
        k, n = self.shape
        right = Operand(self.format, w.strides[0], w.strides[1], (), w.flags.aligned)
        left = Operand(a_format, k * a_format.itemsize, a_format.itemsize)
        out = Operand(format_of("float32"), 4 * n, 4)
        params = MatmulParams(_TYPICAL_ROWS, n, k, left, right, out)
        self._plan: HostPlan = plan_host(params, options, Epilogue(), target, packing=True)
        room = np.empty(prepared_bytes(self._plan) + 64, np.uint8)
        start = -room.ctypes.data % 64
        self._packed = room[start:]
        lower_prepare(self._plan).run(w, w, self._packed, None)

    @property
    def nbytes(self) -> int:
        """Bytes of the packed form."""
        return self._packed.nbytes

    def __repr__(self) -> str:
        return f"PreparedMatrix(shape={self.shape}, format={self.format}, nbytes={self.nbytes})"

    def product(self, a: Array, out: Array | None, out_dtype: Any, epilogue: Epilogue, bias: Array | None,
                options: MatmulOptions, target: Target) -> Array:
        """Multiply `a` by this matrix; arguments as `matmul` has checked them."""
        stand_in = np.broadcast_to(np.zeros((), self.format.dtype), self.shape)
        call = read_call(a, stand_in, out, out_dtype, bias)
        if panel_format(call.params, options).bits > self._plan.panel.bits:
            raise bad_type("a", f"{a.dtype}, where b was prepared for {self._plan.panel} panels",
                           "the format that b was prepared for: prepare(w, a_dtype=...)")
        program = program_of(call.params, options, epilogue, target, self._plan)
        result = np.empty(call.shape, call.format.dtype) if out is None else out
        sources = [x for x in (a, bias) if x is not None]
        if out is not None and any(np.may_share_memory(out, x) for x in sources):
            result = self.product(a, None, call.format, epilogue, bias, options, target)
            out[...] = result
            return out
        program.run(a, self._packed, result, bias)
        return result
