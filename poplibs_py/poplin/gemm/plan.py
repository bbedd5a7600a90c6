"""The plan of a dense product on this CPU: what was decided, and what lies where in a thread's scratch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from ...checks import one_of, real
from ...formats import BF16, FP32, Format
from ...kernels import Kernel, Selection, kernels
from ...kernels.records import ACTIVATIONS
from ...ops import OwnNumber, changed_plan, check_fields
from ...planner.explain import Explained, Explanation, considered_kernels
from ...planner.ladder import HostLimited, Temporaries
from ...program import rounded, whole_lines
from ...target import Target
from ._gemm import GATHERED, Mode, Sums
from .field import Neighbours
from .options import GemmOptions
from .params import GemmParams

HALF_PARTIALS_DEPTH = 128
"""Numbers of the depth between two roundings of the running sum, where partials are half."""

PIECES = 4
"""Pieces of the kernel's height that A is packed for at once."""

FAR = 8
"""Second-level caches whose bytes a prepared operand takes that comes from memory for each block of rows."""

WINDOW = 160 << 10
"""Bytes of elements that are decoded at once for all taps, if a line of rows meets no more."""

ROOM_SHARE = 4
"""The second-level cache over what a matrix unit's window takes of it."""

TRANSPOSED_PIECES = 32
"""The same where A lies across its rows: lines to pack are then as long as the block is high."""

_LARGEST = FP32.max
_MODE_NAMES = {Mode.DIRECT: "as it lies", Mode.LINES: "packed", Mode.TRANSPOSED: "packed, transposed",
               Mode.PREPARED: "prepared", Mode.ALONG: "packed along the depth",
               Mode.NEIGHBOURS: "decoded once for taps in line"}
_WINDOW = "in windows with the zeros around them"
_SUM_NAMES = {Sums.IN_PLACE: "in the output", Sums.TILE: "in registers' tile", Sums.BLOCK: "in a block of scratch"}


@dataclass(frozen=True)
class Epilogue:
    """What happens to the sums: out = activation(alpha * sums + beta * out + bias).

    Alpha and beta may be numbers that each call has of its own.
    """

    alpha: float | OwnNumber = 1.0
    beta: float | OwnNumber = 0.0
    activation: str | None = None

    @classmethod
    def of(cls, alpha: Any, beta: Any, activation: Any, name: str = "alpha") -> Epilogue:
        """Check a caller's arguments, of which the factor of the sums has a `name`; -0 is 0."""
        by, of_old = (float(np.float32(real(of, value, "a finite FP32 number", -_LARGEST, _LARGEST))) + 0.0
                      for of, value in ((name, alpha), ("beta", beta)))
        one_of("activation", activation, ACTIVATIONS)
        return cls(by, of_old, activation)

    def own(self, alpha: OwnNumber | None, beta: OwnNumber | None = None) -> Epilogue:
        """Return it with numbers of the call in the place of its own, where there are any."""
        return Epilogue(self.alpha if alpha is None else alpha, self.beta if beta is None else beta, self.activation)

    @property
    def takes_words(self) -> bool:
        """Whether a program takes the call's words."""
        return isinstance(self.alpha, OwnNumber) or isinstance(self.beta, OwnNumber)

    @property
    def plain(self) -> bool:
        """Whether the sums themselves are the result, save for a bias."""
        return self.alpha == 1.0 and self.beta == 0.0


class Scratch:
    """The scratch of a plan, which each thread lays out in parts."""

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's scratch, in order."""
        raise NotImplementedError

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        return sum(size for _, size in self.layout)

    def offset(self, part: str) -> int:
        """Where a part of the scratch begins."""
        return begins(self.layout)[part]


def begins(layout: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """Return where each part of a layout begins.

    Examples
    --------
    >>> from poplibs_py.poplin.gemm.plan import begins, on_lines
    >>> begins(on_lines(sums=100, bias=4))
    {'sums': 0, 'bias': 128}
    """
    ends = accumulate(size for _, size in layout)
    return {name: end - size for (name, size), end in zip(layout, ends, strict=True)}


def on_lines(**parts: int) -> tuple[tuple[str, int], ...]:
    """Return parts of a scratch by their bytes, each on cache lines of its own.

    Examples
    --------
    >>> from poplibs_py.poplin.gemm.plan import on_lines
    >>> on_lines(sums=100, bias=4)
    (('sums', 128), ('bias', 64))
    """
    return tuple((name, whole_lines(size)) for name, size in parts.items())


class Scratched(Scratch, HostLimited, Explained):
    """A plan of one kernel, and of the scratch of each thread."""

    selection: Selection
    threads: int
    memory_limit: int | None
    raised: int | None = None

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies."""
        return self.selection.kernel

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.threads * self.scratch_bytes

    @property
    def temporaries(self) -> Temporaries:
        """The same, and how many it may take."""
        return Temporaries.of_threads(self.temporary_bytes, self.memory_limit, self.raised, self.threads)

    @property
    def scratch_decisions(self) -> dict[str, str]:
        """What was decided of the scratch of a thread, and what all of them take."""
        parts = ", ".join(f"{name} {size:,}" for name, size in self.layout if size) or "none"
        return {"scratch": f"{self.scratch_bytes:,} bytes a thread: {parts}", "memory": str(self.temporaries)}


@dataclass(frozen=True)
class GemmPlan(Scratched):
    """How a dense product runs on this CPU.

    Attributes
    ----------
    product, params
        The product as it was called for; the same work with batch axes folded into rows, and transposed where that
        is `swapped`.
    options, epilogue, target
        How it is wanted, and on which machine.
    compute_format : Format
        What operands are decoded to and multiplied in: FP32, or BF16 where products of the operands are exact in it.
    selection : Selection
        The kernel, with the reasons against the others.
    a_mode, b_mode : int
        How operands reach the kernel (`Mode`).
    sums : int
        Where sums are kept (`Sums`).
    mc, nc, kc : int
        Rows, columns and depth of a block; where its sums are in scratch, A is packed for fewer rows at once.
    grid : (int, int)
        Rectangles of each product, by rows and by columns.
    threads : int
        Threads that share the rectangles.
    layout : tuple of (str, int)
        Bytes of each part of a thread's scratch, in order.
    memory_limit, raised : int or None
        Bytes of scratch that a thread may take, and what became of that limit, as `temporaries` has it of all threads.
    swapped : bool
        Whether the transposed product is computed, operands swapped.
    parts : (int, int)
        BF16 numbers that an element of A, of B is split in.
    fallback : GemmPlan or None
        What runs where numbers are split and an operand is not finite.
    """

    product: GemmParams
    params: GemmParams
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    compute_format: Format
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
    memory_limit: int | None = None
    swapped: bool = False
    parts: tuple[int, int] = (1, 1)
    fallback: GemmPlan | None = None
    raised: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, known in (("a_mode", _MODE_NAMES), ("b_mode", _MODE_NAMES), ("sums", _SUM_NAMES)):
            if getattr(self, name) not in known:
                raise changed_plan(name, getattr(self, name), ", ".join(map(str, known)))
        if min(self.grid) < 1:
            raise changed_plan("grid", self.grid, "one rectangle at least")

    def __hash__(self) -> int:  # plans of one problem are few, and every first call of a kind looks for its program
        return hash(self.params)

    @property
    def elements(self) -> int:
        """Numbers of a 4-byte cell."""
        return 4 // self.compute_format.itemsize

    @property
    def narrow(self) -> bool:
        """Whether the kernel rounds sums to BF16 results."""
        by_kernel = Sums.TILE if self.by_taps else Sums.IN_PLACE
        return self.params.out.format != FP32 and self.sums == by_kernel and self.writes_results

    @property
    def writes_results(self) -> bool:
        """Whether results lie so that the kernel may write them: sums, or what it rounds with all of the depth."""
        out, kernel, size = self.params.out, self.kernel, self.params.out.format.itemsize
        lines = kernel.op == "multiply" and kernel.formats == BF16.name and kernel.grain[0] == 1
        plain = self.epilogue == Epilogue() and self.params.bias is None
        rounds = lines and plain and out.format == BF16 and self.kc >= self.params.k
        return (
            out.field is None
            and out.parts == (0, 0)
            and (out.format == FP32 or rounds)
            and out.aligned
            and (out.column == size or self.params.n == 1)
            and out.row % size == 0
            and self.epilogue.plain
            and self.options.partials_type == "float"
        )

    @property
    def by_taps(self) -> bool:
        """Whether A is a field that is read where it lies, tap by tap."""
        return self.a_mode == Mode.DIRECT and self.params.a.field is not None

    @property
    def neighbours(self) -> Neighbours | None:
        """How columns of B are read from lines that all taps of a dimension share, if they are."""
        b = self.params.b
        return b.field.neighbours(b.format.itemsize) if b.field and self.b_mode == Mode.NEIGHBOURS else None

    @property
    def call(self) -> tuple[Kernel, int]:
        """The kernel that is called, and the panels that it takes at once."""
        p, kernel = self.params, self.kernel
        prepared = self.b_mode == Mode.PREPARED and p.a.field is None
        called = taking_panels(kernel, p.m) if prepared or self.b_mode == Mode.NEIGHBOURS else kernel
        return called, called.block[1] // kernel.block[1]

    @property
    def even(self) -> bool:
        """Whether that is copied with the zeros around it: a matrix unit takes 16 rows that lie evenly at once."""
        return self.by_taps and self.kernel.takes_tiles

    @property
    def window_bytes(self) -> int:
        """Bytes of the elements that some lines of rows meet, where they are decoded for all taps; else 0."""
        a = self.params.a
        if self.even and a.field:
            size = self.compute_format.itemsize
            high = a.field.dims[-2].positions if len(a.field.dims) > 1 else 1
            images = -(-self.params.m // max(1, high * a.field.dims[-1].positions))
            most = self.target.bytes_per_tile // ROOM_SHARE // self.parts[0]
            return max(a.field.room(1) * size, min(most, images * a.field.room(high) * size))
        if not self.by_taps or a.field is None or (a.format == self.compute_format and a.plain):
            return 0
        return a.field.window(self.window_lines) * self.compute_format.itemsize

    @property
    def window_lines(self) -> int:
        """Lines of rows that meet those elements: of the last dimension of a field."""
        field, size = self.params.a.field, self.compute_format.itemsize
        return next((n for n in (8, 4, 2) if field and field.window(n) * size <= WINDOW), 1)

    @property
    def tiles_of_sums(self) -> int:
        """Tiles of sums in scratch: a matrix unit's are made while those before become results."""
        return 2 if self.kernel.takes_tiles else 1

    @property
    def packed_rows(self) -> int:
        """Rows of A packed at once: few, so that they stay in the first-level cache; more where A lies across them."""
        few = self.kernel.block[0] * (TRANSPOSED_PIECES if self.a_mode == Mode.TRANSPOSED else PIECES)
        return min(self.mc, few) if self.sums == Sums.BLOCK else self.mc

    @property
    def looks_ahead(self) -> bool:
        """Whether a thread's operands and sums outgrow its memory, so that asking for them early pays."""
        m, n = (-(-size // parts) for size, parts in zip((self.params.m, self.params.n), self.grid, strict=True))
        return 4 * (m * n + (m + n) * self.params.k) > self.target.bytes_per_tile

    @property
    def panels_ahead(self) -> bool:
        """Whether asking for prepared panels early pays: they come from memory, and a call takes one of them."""
        far = self.b_mode == Mode.PREPARED and not self.by_taps and self.call[1] == 1
        return far and prepared_bytes(self) > FAR * self.target.bytes_per_tile

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        return max(super().scratch_bytes, self.fallback.scratch_bytes if self.fallback else 0)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return self.params.flops

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p = self.product
        batch = f"{p.entries} x " if p.batch else ""
        at_once = f", {self.call[1]} panels at once" if self.call[1] > 1 else ""
        reads = _WINDOW if self.even else _MODE_NAMES[self.a_mode]
        decisions = {"kernel": f"{self.kernel.label}, compute format {self.compute_format}",
                     "A, B": f"{reads}; {_MODE_NAMES[self.b_mode]}{at_once}",
                     "sums": _SUM_NAMES[self.sums] + ", rounded on their way" * self.narrow,
                     "blocks": f"{self.mc} rows, {self.nc} columns, {self.kc} deep",
                     "threads": f"{self.threads}, {self.grid[0]} x {self.grid[1]} rectangles of each product"}
        if self.fallback:
            decisions["not finite"] = f"{self.fallback.kernel.name}, compute format {self.fallback.compute_format}"
        problem = f"matmul {batch}[{p.m}, {p.k}] x [{p.k}, {p.n}]: {p.a.format} x {p.b.format} -> {p.out.format}"
        return Explanation(problem, decisions | self.scratch_decisions, considered_kernels(self.selection))


def taking_panels(kernel: Kernel, rows: int) -> Kernel:
    """Return the kernel that takes several panels of a kernel's at once, if there is one for so few rows, or itself."""
    own = kernel.level, kernel.formats, (1, *kernel.block[1:])
    return next((k for k in kernels("dot") if k.op == "multiply_panels" and (k.level, k.formats, k.grain) == own
                 and rows <= k.block[0]), kernel)


def row_pitch(plan: GemmPlan) -> int:
    """Bytes of a packed line of A: a row of cells, or a line across the rows where A is transposed; of a window all."""
    if plan.by_taps:
        return plan.window_bytes
    if _lines_of_rows(plan):
        return rounded(4 * plan.packed_rows, 64) + 64
    return rounded(rounded(plan.kc, plan.kernel.grain[2]) * plan.compute_format.itemsize, 64) + 64


def laid_out(plan: GemmPlan, mc: int, nc: int) -> tuple[tuple[str, int], ...]:
    """Bytes of each part of a thread's scratch."""
    p, rows = plan.params, plan.kernel.block[0]
    trial = replace(plan, mc=mc, nc=nc)
    a = panel_bytes(trial, 0) * plan.parts[0]
    b = panel_bytes(trial, 1) * plan.parts[1]
    stages = [stage_of(trial, 0)[2], stage_of(trial, 1)[2], 0]
    sums = bias = 0
    if plan.sums == Sums.TILE:
        sums = plan.tiles_of_sums * rows * sums_pitch(plan, nc) * 4
    elif plan.sums == Sums.BLOCK:
        sums = mc * sums_pitch(plan, nc) * 4
    if p.bias:
        length = mc if p.bias_per_row else nc
        bias = rounded(length * 4, 64)
        stages[2] = rounded(length * p.bias.format.itemsize, 64)
    return on_lines(sums=sums, b=b, a=a, bias=bias, stage=max(stages))


def panel_bytes(plan: GemmPlan, side: int) -> int:
    """Bytes of the packed block of A (0) or B (1), of one part of its numbers."""
    if (plan.a_mode, plan.b_mode)[side] in (Mode.DIRECT, Mode.PREPARED):
        field = plan.params.a.field  # a matrix unit reads whole units of rows, the last ones beyond the window
        beyond = 16 * field.dims[-1].step * field.channels * plan.compute_format.itemsize if plan.even and field else 0
        return 0 if side else rounded(plan.window_bytes + beyond, 64)
    if side == 1 and plan.neighbours:
        return rounded(plan.kc // plan.neighbours.taps * plan.neighbours.pitch(plan.nc), 64)
    cells = rounded(plan.kc, plan.kernel.grain[2]) // plan.elements
    if side == 1:
        return rounded(plan.nc, plan.kernel.block[1]) * cells * 4
    lines = cells if _lines_of_rows(plan) else rounded(plan.packed_rows, plan.kernel.grain[0])
    return rounded(lines * row_pitch(plan), 64)


def _lines_of_rows(plan: GemmPlan) -> bool:
    """Whether A is packed as lines across its rows: it lies so, and the kernel takes cells with any strides."""
    return plan.a_mode == Mode.TRANSPOSED and plan.kernel.grain[0] == 1


def stage_of(plan: GemmPlan, side: int) -> tuple[int, int, int]:
    """Return where in the stage an operand's low parts and gathered codes begin, and the bytes that it needs."""
    mode = (plan.a_mode, plan.b_mode)[side]
    if mode in (Mode.DIRECT, Mode.PREPARED, Mode.NEIGHBOURS):
        return 0, 0, 0
    split = plan.parts[side]
    depth = rounded(plan.kc, plan.kernel.grain[2])
    lines = mode == Mode.TRANSPOSED if side == 0 else mode == Mode.LINES
    length, low, gather = depth, 0, 0
    if lines:
        length = plan.kernel.block[1] if side == 1 else plan.packed_rows if _lines_of_rows(plan) else 16
        if plan.compute_format == BF16:
            low, gather = 2 * rounded(2 * length, 64), 4 * rounded(2 * length, 64)
    elif side == 1 and mode == Mode.TRANSPOSED:
        low = 16 * 4 * (depth // plan.elements)
        gather = split * low
    operand = (plan.params.a, plan.params.b)[side]
    count = 1
    if operand.field:  # straight to where they are packed, if nothing happens on the way
        straight = operand.format == plan.compute_format and operand.plain and not (lines and plan.elements == 2)
        count = 0 if straight else GATHERED
    return (low if split > 1 else 0), gather, gather + count * rounded(length * operand.format.itemsize, 64)


def sums_pitch(plan: GemmPlan, nc: int) -> int:
    """Numbers from a row of the sums in scratch to the next."""
    cols = plan.call[1] * plan.kernel.block[1]
    return cols if plan.sums == Sums.TILE else rounded(nc, 16) + 16


def prepared_cells(plan: GemmPlan) -> int:
    """Cells of the whole depth of a prepared panel."""
    return rounded(plan.params.k, plan.kernel.grain[2]) // plan.elements


def prepared_bytes(plan: GemmPlan) -> int:
    """Bytes of B prepared under a plan."""
    columns = rounded(plan.params.n, plan.kernel.block[1])  # the last panel is padded
    return 4 * columns * prepared_cells(plan) * plan.parts[1]
