"""The plan of a dense product on the host: kernel, how operands reach it, block sizes, threads, bytes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from ...errors import MemoryBoundError, MemoryBoundWarning
from ...formats import BF16, FP32, Format
from ...kernels import Kernel, Selection, select
from ...target import Target, memory_bound
from ._matmul import Mode, Sums
from .model import kernel_cycles, rounded
from .options import MatmulOptions
from .params import MatmulParams, Operand

__all__ = ["Epilogue", "HostPlan", "plan_host"]

_DEPTH = 256  # cells of depth of a block: a panel of B then stays in the first-level cache
_ROWS_IN_CACHE = 192  # rows of A that a block of columns is multiplied with before the next block
_FLOPS_OF_A_THREAD = 1 << 20  # work below which another thread costs more than it brings
_HALF_PARTIALS_DEPTH = 128
_MODE_NAMES = {Mode.DIRECT: "as it lies", Mode.LINES: "packed", Mode.TURNED: "packed, turned", Mode.PREPARED: "prepared"}
_SUM_NAMES = {Sums.IN_PLACE: "in the output", Sums.TILE: "in registers' tile", Sums.BLOCK: "in a block of scratch"}


@dataclass(frozen=True)
class Epilogue:
    """What happens to the sums: out = activation(alpha * sums + beta * out + bias)."""

    alpha: float = 1.0
    beta: float = 0.0
    activation: str | None = None

    @property
    def plain(self) -> bool:
        """Whether the sums themselves are the result, save for a bias."""
        return self.alpha == 1.0 and self.beta == 0.0


@dataclass(frozen=True)
class HostPlan:
    """How a dense product runs on this CPU.

    Attributes
    ----------
    params, options, epilogue, target
        What was planned, how and for which machine.
    panel : Format
        What operands are decoded to: FP32, or BF16 where products of the operands are exact in it.
    selection : Selection
        The kernel, with the reasons against the others.
    a_mode, b_mode : int
        How operands reach the kernel (`Mode`).
    sums : int
        Where sums are kept (`Sums`).
    mc, nc, kc : int
        Rows, columns and depth of a block.
    grid : (int, int)
        Rectangles of each product, by rows and by columns.
    threads : int
        Threads that share the rectangles.
    layout : tuple of (str, int)
        Bytes of each part of a thread's scratch, in order.
    bound : int or None
        Bytes of scratch that a thread may take.
    """

    params: MatmulParams
    options: MatmulOptions
    epilogue: Epilogue
    target: Target
    panel: Format
    selection: Selection
    a_mode: int
    b_mode: int
    sums: int
    mc: int
    nc: int
    kc: int
    grid: tuple[int, int]
    threads: int
    layout: tuple[tuple[str, int], ...] = ()
    bound: int | None = None

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies."""
        return self.selection.kernel

    @property
    def elements(self) -> int:
        """Numbers of a 4-byte cell."""
        return 4 // self.panel.itemsize

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        return sum(size for _, size in self.layout)

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.threads * self.scratch_bytes

    def offset(self, part: str) -> int:
        """Where a part of the scratch begins."""
        at = 0
        for name, size in self.layout:
            if name == part:
                break
            at += size
        return at

    def explain(self) -> str:
        """Return the plan in words, one line for each decision."""
        p = self.params
        batch = f"{p.entries} x " if p.batch else ""
        bound = "none" if self.bound is None else f"{self.bound * self.target.tiles:,}"
        parts = ", ".join(f"{name} {size:,}" for name, size in self.layout if size) or "none"
        return "\n".join([
            f"matmul {batch}[{p.m}, {p.k}] x [{p.k}, {p.n}]: {p.a.format} x {p.b.format} -> {p.out.format}",
            f"  kernel    {self.kernel.name} ({self.kernel.level}), panels in {self.panel}",
            f"  A, B      {_MODE_NAMES[self.a_mode]}; {_MODE_NAMES[self.b_mode]}",
            f"  sums      {_SUM_NAMES[self.sums]}",
            f"  blocks    {self.mc} rows, {self.nc} columns, {self.kc} deep",
            f"  threads   {self.threads}, {self.grid[0]} x {self.grid[1]} rectangles of each product",
            f"  scratch   {self.temporary_bytes:,} bytes (bound {bound}); of a thread: {parts}",
        ])

    __str__ = explain


def plan_host(params: MatmulParams, options: MatmulOptions, epilogue: Epilogue, target: Target,
              fixed: HostPlan | None = None) -> HostPlan:
    """Plan a product on the host.

    With `fixed`, operand B was prepared under that plan: its kernel, panel format and depth of blocks are kept.
    """
    bound = memory_bound(target, options.available_memory_proportion)
    plan = _plan_within(params, options, epilogue, target, bound, fixed)
    if plan is not None:
        return plan
    assert bound is not None
    least = _plan_within(params, options, epilogue, target, None, fixed, least=True)
    assert least is not None
    needed = least.scratch_bytes
    text = (f"matmul: available_memory_proportion={options.available_memory_proportion} leaves {bound} bytes of a tile; "
            f"the least that any plan takes is {needed}")
    if options.strict_memory:
        raise MemoryBoundError(text)
    warnings.warn(text + "; the bound was raised", MemoryBoundWarning, stacklevel=4)
    raised: int | None = max(1, bound)
    while raised is not None:
        raised = raised * 2 if raised < 2 * target.bytes_per_tile else None
        plan = _plan_within(params, options, epilogue, target, raised, fixed)
        if plan is not None:
            return replace(plan, bound=bound)
    raise AssertionError("a plan without a bound always exists")


def _plan_within(params: MatmulParams, options: MatmulOptions, epilogue: Epilogue, target: Target, bound: int | None,
                 fixed: HostPlan | None, least: bool = False) -> HostPlan | None:
    """Return the best plan whose scratch fits `bound` bytes a thread; None if there is none."""
    panel = fixed.panel if fixed else panel_format(params, options)
    threads, grid = _threads(params, target)
    m, n = -(-params.m // grid[0]), -(-params.n // grid[1])
    if fixed:
        selection = fixed.selection
    else:
        selection = select("dot", "multiply", panel.name, consistent=options.reproducible,
                           cost=lambda kernel: _cost(kernel, m, n))
    kernel = selection.kernel
    a_mode = _mode_of_a(params.a, panel, kernel, n, params.k)
    b_mode = int(Mode.PREPARED) if fixed else _mode_of_b(params.b, panel, kernel, m, n, params.k)
    draft = HostPlan(params, options, epilogue, target, panel, selection, a_mode, b_mode, int(Sums.IN_PLACE), m, n,
                     params.k, grid, threads, (), bound)
    return _blocked(draft, m, n, fixed, least)


def panel_format(params: MatmulParams, options: MatmulOptions) -> Format:
    """Return what operands are decoded to."""
    return FP32


def _cost(kernel: Kernel, m: int, n: int) -> float:
    """Cycles, by the widest vectors first: lower levels are not candidates while a higher one serves."""
    return kernel_cycles(kernel, m, n)


def _threads(params: MatmulParams, target: Target) -> tuple[int, tuple[int, int]]:
    """Share the work: threads, and rectangles of each product by rows and columns."""
    threads = max(1, min(target.tiles, params.flops // _FLOPS_OF_A_THREAD))
    entries = max(1, params.entries)
    if threads == 1 or entries >= threads:
        return threads, (1, 1)
    best, choice = None, (1, 1)
    for rows in range(1, threads + 1):
        cols = threads // rows
        if rows > -(-params.m // 8) or cols > -(-params.n // 64):
            continue
        size = -(-params.m // rows) * -(-params.n // cols)
        traffic = -(-params.m // rows) + -(-params.n // cols)
        if best is None or (size, traffic) < best:
            best, choice = (size, traffic), (rows, cols)
    return min(threads, entries * choice[0] * choice[1]), choice


def _mode_of_a(a: Operand, panel: Format, kernel: Kernel, n: int, k: int) -> int:
    whole = panel is FP32 or (a.column == a.format.itemsize and k % kernel.grain[2] == 0)
    if a.format == panel and a.aligned and whole and kernel.grain[0] == 1:
        if a.column == a.format.itemsize or n <= kernel.block[1]:
            return int(Mode.DIRECT)
    turned = a.row == a.format.itemsize and a.column != a.format.itemsize
    return int(Mode.TURNED if turned else Mode.LINES)


def _mode_of_b(b: Operand, panel: Format, kernel: Kernel, m: int, n: int, k: int) -> int:
    size = b.format.itemsize
    if b.format == panel == FP32 and b.aligned and b.column == size:
        if m <= 2 * kernel.block[0] or k * n * size <= 1 << 17:
            return int(Mode.DIRECT)
    return int(Mode.TURNED if b.row == size and b.column != size else Mode.LINES)


def _in_place(plan: HostPlan) -> bool:
    out = plan.params.out
    return (out.format == FP32 and out.aligned and out.column == 4 and out.row % 4 == 0 and plan.epilogue.plain
            and plan.options.partials_type == "float")


def _blocked(plan: HostPlan, m: int, n: int, fixed: HostPlan | None, least: bool) -> HostPlan | None:
    """Choose block sizes that fit the bound, the larger the better; `least` asks for the smallest."""
    rows, cols, _ = plan.kernel.block
    k = plan.params.k
    deepest = _DEPTH * plan.elements
    for depth in (deepest,) if fixed else (deepest, deepest // 4, deepest // 16):
        if least and depth != deepest // 16 and not fixed:
            continue
        kc = fixed.kc if fixed else _even_depth(k, depth, plan.kernel.grain[2])
        sums = Sums.IN_PLACE if _in_place(plan) else Sums.TILE if k <= kc else Sums.BLOCK
        mc = rounded(min(m, _ROWS_IN_CACHE), rows)
        while mc >= rows:
            nc = rounded(n, cols)
            if least:
                mc, nc = rows, cols
            fit = _widest(replace(plan, sums=int(sums), kc=kc), mc, nc)
            if fit is not None:
                return fit
            mc = rounded(mc // 2, rows) if mc > rows else 0
    return None


def _widest(plan: HostPlan, mc: int, nc: int) -> HostPlan | None:
    """Return the plan with the most columns, at most nc, that fits its bound."""
    cols = plan.kernel.block[1]
    bound = plan.bound
    low, high = 1, nc // cols
    best = None
    while low <= high:
        middle = high if best is None and low == 1 and high == nc // cols else (low + high) // 2
        trial = replace(plan, mc=mc, nc=middle * cols, layout=_layout(plan, mc, middle * cols))
        if bound is None or trial.scratch_bytes <= bound:
            best, low = trial, middle + 1
        else:
            high = middle - 1
    return best


def _even_depth(k: int, depth: int, grain: int) -> int:
    """Depth of blocks: k in equal parts of about `depth`."""
    parts = max(1, -(-k // (depth + depth // 2)))
    return max(grain, rounded(-(-k // parts), grain))


def row_pitch(plan: HostPlan, mc: int) -> int:
    """Bytes of a packed line of A: a row of cells, or a line across the rows where A is turned."""
    if plan.a_mode == Mode.TURNED:
        return rounded(4 * mc, 64) + 64
    return rounded(rounded(plan.kc, plan.kernel.grain[2]) * plan.panel.itemsize, 64) + 64


def _layout(plan: HostPlan, mc: int, nc: int) -> tuple[tuple[str, int], ...]:
    """Bytes of each part of a thread's scratch."""
    p, (rows, cols, _) = plan.params, plan.kernel.block
    depth = rounded(plan.kc, plan.kernel.grain[2])
    cells = depth // plan.elements
    a = b = stage = sums = 0
    if plan.a_mode != Mode.DIRECT:
        lines = cells if plan.a_mode == Mode.TURNED else rounded(mc, plan.kernel.grain[0])
        a = rounded(lines * row_pitch(plan, mc), 64)
        stage = _stage_bytes(plan, p.a, mc if plan.a_mode == Mode.TURNED else depth, plan.a_mode == Mode.TURNED)
    if plan.b_mode in (Mode.LINES, Mode.TURNED):
        b = rounded(nc, cols) * cells * 4
        length = cols if plan.b_mode == Mode.LINES else depth
        stage = max(stage, _stage_bytes(plan, p.b, length, plan.b_mode == Mode.LINES)
                    + (16 * 4 * cells if plan.b_mode == Mode.TURNED else 0))
    if plan.sums == Sums.TILE:
        sums = rows * cols * 4
    elif plan.sums == Sums.BLOCK:
        sums = mc * sums_pitch(plan, nc) * 4
    bias = rounded(nc * 4, 64) if p.bias else 0
    if p.bias:
        stage = max(stage, rounded(nc * p.bias.itemsize, 64))
    return (("sums", sums), ("b", b), ("a", a), ("bias", bias), ("stage", rounded(stage, 64)))


def sums_pitch(plan: HostPlan, nc: int) -> int:
    """Numbers from a row of the sums in scratch to the next."""
    cols = plan.kernel.block[1]
    return cols if plan.sums == Sums.TILE else rounded(nc, 16) + 16


def _stage_bytes(plan: HostPlan, operand: Operand, length: int, lines: bool) -> int:
    """Bytes for a gathered line of codes and, for BF16 lines, the two lines that are interleaved."""
    gathered = rounded(length * operand.format.itemsize, 64)
    return gathered + (2 * rounded(2 * length, 64) if lines and plan.panel is BF16 else 0)
