"""How a sampled product runs: decided once from its parameters, within the limit on temporary memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...kernels.registry import select
from ...memo import remembered
from ...planner import Explanation, Memory, within
from ...program import whole_lines
from ...target import Target
from ..plans import KernelPlan
from ..spmm.model import threads_of
from ..spmm.params import itemsize_of
from .model import lies_well, row_bytes, sampled_compute_format
from .params import SddmmParams, checked_params

SAMPLE_CHUNK = 4096
_ELEMENTS = 8
_LEAST_COLUMNS = 32
_LINE = whole_lines(1)


@dataclass(frozen=True)
class SddmmPlan(KernelPlan):
    """How a sampled product runs.

    Attributes
    ----------
    params, memory, target, threads, selection
        As `KernelPlan` has them.
    compute_format : {"float32", "bfloat16", "float16"}
        What both operands are read as.
    y_pack : bool
        Whether rows of dY are decoded to a panel in each thread's scratch.
    x_pack : bool
        Whether rows of X are, for each block that meets them.
    panel_rows : int
        Rows of dY that a panel holds.
    chunk : int
        Columns of a panel.
    scratch_bytes : int
        Temporary bytes of a thread, whole cache lines.
    workspace_bytes : int
        Bytes of the whole of X decoded once, or 0.
    """

    params: SddmmParams
    compute_format: str
    y_pack: bool
    x_pack: bool
    panel_rows: int
    chunk: int
    scratch_bytes: int
    workspace_bytes: int

    __hash__ = KernelPlan.__hash__

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return int(self.workspace_bytes) + int(self.threads) * self.scratch_bytes

    def again(self) -> SddmmPlan:
        """Plan the plan's own problem, or raise where it is none."""
        return plan_sddmm(self.op, checked_params(self.params), self.memory, self.target)

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p = self.params
        (rows, depth), (high, wide), groups = p.shape, p.block_shape, f"{p.groups} x " * (p.groups > 1)
        ways = {name: f"decoded to panels of {self.chunk} columns" if packed else "read as it lies"
                for name, packed in (("dY", self.y_pack), ("X", self.x_pack))}
        if self.workspace_bytes:
            ways["X"] = "decoded once"
        problem = (f"sparse_grad_w {groups}[{rows}, {p.columns}] x [{p.columns}, {depth}] at up to {p.blocks} "
                   f"blocks of {high} x {wide}: {p.y.format} x {p.x.format} -> {p.to_format}")
        return self._explained(problem, f", compute format {self.compute_format}", ways, self.scratch_bytes,
                              self.workspace_bytes)


def plan_sddmm(op: str, params: SddmmParams, memory: Memory, target: Target) -> SddmmPlan:
    """Return the fastest plan within the limit, or complain and return one with the limit raised."""

    def plan_once(limit: int | None) -> SddmmPlan | None:
        plan = _decided(params, memory, target, limit)
        return plan if limit is None or plan.temporary_bytes <= limit * plan.threads else None

    least = _decided(params, memory, target, 1)
    plan, raised = within(op, plan_once, memory, target, lambda: least.temporary_bytes, least.threads)
    return plan if raised is None else replace(plan, raised=raised)


@remembered()
def _decided(p: SddmmParams, memory: Memory, target: Target, limit: int | None) -> SddmmPlan:
    """Make every decision; where none keeps to a limit of bytes for a thread, those that take the least.

    All of X decoded once comes first, then rows of X decoded for each block that meets them, in as many columns at a
    time as there is room for. Columns at a time are the order of the sums, so that one thread's room decides for any
    number of threads.
    """
    wanted = sampled_compute_format(p.y.format, p.x.format)
    as_they_are = lies_well(p.y, wanted) and lies_well(p.x, wanted)
    compute = wanted if as_they_are or wanted != "float16" else "float32"  # FP16 only where both are read as they lie
    selection = select("sparse", "sample", f"{compute},{compute}->{p.to_format}")
    size = itemsize_of(compute)
    y_pack, x_pack = not lies_well(p.y, compute), not lies_well(p.x, compute)
    rows = min(p.block_shape[0], max(1, SAMPLE_CHUNK // p.block_shape[1]))
    sums = 4 * max(SAMPLE_CHUNK, p.block_shape[1]) * (1 + (y_pack or x_pack))
    y_line = rows * size * y_pack
    threads = threads_of(p.multiplications, target)
    workspace = p.groups * p.shape[1] * row_bytes(p.columns, compute) * x_pack
    whole = SddmmPlan(p, memory, target, threads, selection, compute, y_pack, False, rows, p.columns,
                      whole_lines(sums + y_line * p.columns), workspace)
    if limit is None or whole.workspace_bytes + whole.scratch_bytes <= limit:
        return whole
    line = y_line + max(p.block_shape[1], _ELEMENTS if p.block_shape == (1, 1) else 1) * size * x_pack
    fit = (limit - limit % _LINE - sums) // max(1, line) // _LEAST_COLUMNS * _LEAST_COLUMNS
    chunk = min(p.columns, max(_LEAST_COLUMNS, fit)) if line else p.columns
    return SddmmPlan(p, memory, target, threads, selection, compute, y_pack, x_pack, rows, chunk,
                     whole_lines(sums + line * chunk), 0)
