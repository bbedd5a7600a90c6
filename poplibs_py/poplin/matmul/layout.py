"""The scratch of a thread: what lies in it for a plan, how long each part is, from one line to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...formats import BF16
from ._matmul import Mode, Sums
from .model import rounded

if TYPE_CHECKING:
    from .plan import HostPlan

__all__ = ["laid_out", "panel_bytes", "row_pitch", "stage_of", "sums_pitch"]


def row_pitch(plan: HostPlan) -> int:
    """Bytes of a packed line of A: a row of cells, or a line across the rows where A is transposed."""
    if _lines_of_rows(plan):
        return rounded(4 * plan.packed_rows, 64) + 64
    return rounded(rounded(plan.kc, plan.kernel.grain[2]) * plan.panel.itemsize, 64) + 64


def laid_out(plan: HostPlan, mc: int, nc: int) -> tuple[tuple[str, int], ...]:
    """Bytes of each part of a thread's scratch."""
    p, (rows, cols, _) = plan.params, plan.kernel.block
    trial = replace(plan, mc=mc, nc=nc)
    a = panel_bytes(trial, 0) * plan.parts[0]
    b = panel_bytes(trial, 1) * plan.parts[1]
    stages = [stage_of(trial, 0)[2], stage_of(trial, 1)[2], 0]
    sums = bias = 0
    if plan.sums == Sums.TILE:
        sums = rows * cols * 4
    elif plan.sums == Sums.BLOCK:
        sums = mc * sums_pitch(plan, nc) * 4
    if p.bias:
        length = mc if p.bias_per_row else nc
        bias = rounded(length * 4, 64)
        stages[2] = rounded(length * p.bias.itemsize, 64)
    return (("sums", rounded(sums, 64)), ("b", b), ("a", a), ("bias", bias), ("stage", max(stages)))


def panel_bytes(plan: HostPlan, side: int) -> int:
    """Bytes of the packed block of A (0) or B (1), of one part of its numbers."""
    if (plan.a_mode, plan.b_mode)[side] in (Mode.DIRECT, Mode.PREPARED):
        return 0
    cells = rounded(plan.kc, plan.kernel.grain[2]) // plan.elements
    if side == 1:
        return rounded(plan.nc, plan.kernel.block[1]) * cells * 4
    lines = cells if _lines_of_rows(plan) else rounded(plan.packed_rows, plan.kernel.grain[0])
    return rounded(lines * row_pitch(plan), 64)


def _lines_of_rows(plan: HostPlan) -> bool:
    """Whether A is packed as lines across its rows: it lies so, and the kernel takes cells with any strides."""
    return plan.a_mode == Mode.TRANSPOSED and plan.kernel.grain[0] == 1


def stage_of(plan: HostPlan, side: int) -> tuple[int, int, int]:
    """Return where in the stage an operand's low parts and gathered codes begin, and the bytes that it needs."""
    mode = (plan.a_mode, plan.b_mode)[side]
    if mode in (Mode.DIRECT, Mode.PREPARED):
        return 0, 0, 0
    split = plan.parts[side]
    depth = rounded(plan.kc, plan.kernel.grain[2])
    lines = mode == Mode.TRANSPOSED if side == 0 else mode == Mode.LINES
    length, low, gather = depth, 0, 0
    if lines:
        length = plan.kernel.block[1] if side == 1 else plan.packed_rows if _lines_of_rows(plan) else 16
        if plan.panel == BF16:
            low, gather = 2 * rounded(2 * length, 64), 4 * rounded(2 * length, 64)
    elif side == 1 and mode == Mode.TRANSPOSED:
        low = 16 * 4 * (depth // plan.elements)
        gather = split * low
    item = (plan.params.a, plan.params.b)[side].format.itemsize
    return (low if split > 1 else 0), gather, gather + rounded(length * item, 64)


def sums_pitch(plan: HostPlan, nc: int) -> int:
    """Numbers from a row of the sums in scratch to the next."""
    cols = plan.kernel.block[1]
    return cols if plan.sums == Sums.TILE else rounded(nc, 16) + 16
