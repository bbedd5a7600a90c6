"""How a sampled product runs: decided once from its parameters, within the limit on temporary memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ...errors import UnsupportedError
from ...kernels.registry import Kernel, Selection, select
from ...planner import Explanation, Memory, within
from ...planner.explain import considered_kernels
from ...target import Target
from ..operands import DenseLayout
from ..spmm.model import compute_format_of, threads_for
from ..spmm.params import itemsize_of
from .params import SddmmParams

__all__ = ["SddmmPlan", "plan_sddmm", "row_bytes", "sampled_compute_format"]

SAMPLE_CHUNK = 4096
_ELEMENTS = 8
_LEAST_COLUMNS = 32
_ALIGNMENT = 64


@dataclass(frozen=True)
class SddmmPlan:
    """How a sampled product runs.

    Attributes
    ----------
    params : SddmmParams
    memory : Memory
        The limit on temporary bytes.
    target : Target
        This CPU.
    threads : int
    compute_format : {"float32", "bfloat16", "float16"}
        What both operands are read as.
    selection : Selection
        The kernel that multiplies, with the reasons against the others.
    y_pack : bool
        Whether rows of dY are decoded to a panel in each thread's scratch.
    x_pack : bool
        Whether rows of X are, for each block that meets them.
    panel_rows : int
        Rows of dY that a panel holds.
    chunk : int
        Columns of a panel.
    scratch_bytes : int
        Temporary bytes of a thread.
    workspace_bytes : int
        Bytes of the whole of X decoded once, or 0.
    """

    params: SddmmParams
    memory: Memory
    target: Target
    threads: int
    compute_format: str
    selection: Selection = field(hash=False)
    y_pack: bool
    x_pack: bool
    panel_rows: int
    chunk: int
    scratch_bytes: int
    workspace_bytes: int

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies."""
        return self.selection.kernel

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.workspace_bytes + self.threads * self.scratch_bytes

    @property
    def fits(self) -> bool:
        """Whether a run keeps to the limit."""
        limit = self.memory.limit(self.target)
        return limit is None or self.temporary_bytes <= limit * self.threads

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p = self.params
        (rows, depth), (high, wide), groups = p.shape, p.block_shape, f"{p.groups} x " * (p.groups > 1)
        ways = {name: f"decoded to panels of {self.chunk} columns" if packed else "read as it lies"
                for name, packed in (("dY", self.y_pack), ("X", self.x_pack))}
        if self.workspace_bytes:
            ways["X"] = "decoded once"
        limit = self.memory.limit(self.target)
        allowed = "no limit" if limit is None else f"limit {limit * self.threads:,}"
        problem = (f"sparse_grad_w {groups}[{rows}, {p.columns}] x [{p.columns}, {depth}] at {p.blocks} blocks of "
                   f"{high} x {wide}: {p.y.format} x {p.x.format} -> {p.to_format}")
        return Explanation(problem, {
            "kernel": f"{self.kernel.name} ({self.kernel.level}), compute format {self.compute_format}",
            **ways,
            "threads": f"{self.threads}, shares of equal stored blocks",
            "bytes": f"scratch {self.scratch_bytes:,} a thread, workspace {self.workspace_bytes:,}, in all "
                     f"{self.temporary_bytes:,} ({allowed})",
        }, considered_kernels(self.selection))

    def __str__(self) -> str:
        return self.explain().words()


@lru_cache
def sampled_compute_format(y_dtype: str, x_dtype: str) -> str:
    """Return what both operands of a gradient of the weights are read as, where they lie well."""
    if y_dtype == x_dtype == "float16":
        try:
            select("sparse", "sample", "float16,float16->any")
        except UnsupportedError:
            return "float32"
        return "float16"
    return compute_format_of(y_dtype, x_dtype)


def plan_sddmm(params: SddmmParams, memory: Memory, target: Target) -> SddmmPlan:
    """Return the fastest plan within the limit, or complain and return one with the limit raised."""

    def plan_once(limit: int | None) -> SddmmPlan | None:
        plan = _decided(params, memory, target, limit)
        return plan if limit is None or plan.temporary_bytes <= limit * plan.threads else None

    least = _decided(params, memory, target, 1)
    return within("sparse_grad_w", plan_once, memory, target, lambda: least.temporary_bytes, least.threads)


@lru_cache(maxsize=1024)
def _decided(p: SddmmParams, memory: Memory, target: Target, limit: int | None) -> SddmmPlan:
    """Make every decision; where none keeps to a limit of bytes for a thread, those that take the least.

    All of X decoded once comes first, then rows of X decoded for each block that meets them, in as many columns at a
    time as there is room for. Columns at a time are the order of the sums, so that one thread's room decides for any
    number of threads.
    """
    wanted = sampled_compute_format(p.y.format, p.x.format)
    as_they_are = _lies_well(p.y, wanted) and _lies_well(p.x, wanted)
    compute = wanted if as_they_are or wanted != "float16" else "float32"  # FP16 only where both are read as they lie
    selection = select("sparse", "sample", f"{compute},{compute}->{p.to_format}")
    size = itemsize_of(compute)
    y_pack, x_pack = not _lies_well(p.y, compute), not _lies_well(p.x, compute)
    rows = min(p.block_shape[0], max(1, SAMPLE_CHUNK // p.block_shape[1]))
    sums = 4 * max(SAMPLE_CHUNK, p.block_shape[1]) * (1 + (y_pack or x_pack))
    y_line = rows * size * y_pack
    threads = threads_for(p.multiplications, target)
    workspace = p.groups * p.shape[1] * row_bytes(p.columns, compute) * x_pack
    whole = SddmmPlan(p, memory, target, threads, compute, selection, y_pack, False, rows, p.columns,
                      sums + y_line * p.columns, workspace)
    if limit is None or whole.workspace_bytes + whole.scratch_bytes <= limit:
        return whole
    line = y_line + max(p.block_shape[1], _ELEMENTS if p.block_shape == (1, 1) else 1) * size * x_pack
    fit = (limit - sums) // max(1, line) // _LEAST_COLUMNS * _LEAST_COLUMNS
    chunk = min(p.columns, max(_LEAST_COLUMNS, fit)) if line else p.columns
    return SddmmPlan(p, memory, target, threads, compute, selection, y_pack, x_pack, rows, chunk,
                     sums + line * chunk, 0)


def _lies_well(operand: DenseLayout, compute_format: str) -> bool:
    """Whether a kernel can read an operand where it is."""
    unit = operand.strides[2] == itemsize_of(operand.format)
    return operand.format == compute_format and not operand.scale and unit and operand.aligned


def row_bytes(columns: int, compute_format: str) -> int:
    """Return the bytes of a row decoded, from a cache line on."""
    return -(-columns * itemsize_of(compute_format) // _ALIGNMENT) * _ALIGNMENT
