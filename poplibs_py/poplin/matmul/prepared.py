"""An operand packed once for many products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type
from ...formats import FP32, Format
from ...immutable import Immutable
from ...program import result_array
from ...target import Target
from .arguments import Array, Given, contiguous, read_call, receiver
from .lower import lower_prepare, program_of
from .options import MatmulOptions
from .params import MatmulParams
from .plan import Epilogue, HostPlan, panel_format, parts, plan_host, prepared_bytes

__all__ = ["PreparedMatrix"]

_TYPICAL_ROWS = 1024


class PreparedMatrix(Immutable):
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

    __slots__ = ("__weakref__", "_packed", "_plan", "_whole", "format", "shape")

    shape: tuple[int, int]
    format: Format
    _plan: HostPlan
    _packed: Array
    _whole: Array | None

    def __init__(self, w: Given, a_format: Format, options: MatmulOptions, target: Target) -> None:
        if not isinstance(w, Given):
            raise bad_type("w", type(w).__name__, "what poplin.prepare makes one from")
        if len(w.shape) != 2:
            raise bad_argument("w", f"shape {w.shape}", "a matrix")
        k, n = w.shape
        left, out = contiguous(a_format, _TYPICAL_ROWS, k, ()), contiguous(FP32, _TYPICAL_ROWS, n, ())
        params = MatmulParams(_TYPICAL_ROWS, n, k, left, w.operand(()), out)
        plan = plan_host(params, options, Epilogue(), target, packing=True)
        room = np.empty(prepared_bytes(plan) + 64, np.uint8)
        packed = room[-room.ctypes.data % 64 :]
        lower_prepare(plan).run(w.array, w.array, packed, None, None, w.scales)
        # Where numbers are split in parts, a call that meets an infinity needs them whole.
        whole = np.array(w.array, order="C") if plan.parts != (1, 1) else None
        self._set(shape=(k, n), format=w.format, _plan=plan, _packed=packed, _whole=whole)

    @property
    def nbytes(self) -> int:
        """Bytes of the packed form."""
        return self._packed.nbytes + (0 if self._whole is None else self._whole.nbytes)

    def __repr__(self) -> str:
        return f"PreparedMatrix(shape={self.shape}, format={self.format}, nbytes={self.nbytes})"

    def product(
        self,
        a: Given,
        out: Any,
        out_dtype: Any,
        epilogue: Epilogue,
        bias: Array | None,
        options: MatmulOptions,
        target: Target,
        out_name: str = "out",
    ) -> Any:
        """Multiply `a` by this matrix; arguments as `matmul` has checked them."""
        dtype = self.format.dtype or self.format.code_dtype
        stand_in = Given(np.broadcast_to(np.zeros((), dtype), self.shape), self.format)
        into = None if out is None else receiver(out, out_name)
        call = read_call(a, stand_in, into, out_dtype, bias, out_name)
        k, n = self.shape
        params = replace(call.params, b=replace(contiguous(self.format, k, n, ()), batch=call.params.b.batch))
        if not self._takes(params, options):
            raise bad_type(
                "a",
                f"{a.format}, where b was prepared for {self._plan.asked.a.format}",
                "the format that b was prepared for: prepare(w, a_dtype=...)",
            )
        program = program_of(params, options, epilogue, target, self._plan)
        sources = [x for x in (a.array, bias) if x is not None]
        if into is not None and any(np.may_share_memory(into.array, x) for x in sources):
            spare = out.copy()
            self.product(a, spare, None, epilogue, bias, options, target)
            into.array[...] = receiver(spare, out_name).array
            return out
        result = result_array(call.shape, call.format.dtype) if into is None else into.array
        program.run(a.array, self._packed, result, bias, a.scales, None, self._whole)
        return result if out is None else out

    def _takes(self, params: MatmulParams, options: MatmulOptions) -> bool:
        """Whether operands like a become panels that this one's multiply with."""
        return self._plan.panel == FP32 or (
            panel_format(params, options, any_shape=True) == self._plan.panel
            and parts(params, options)[1] == self._plan.parts[1]
        )
