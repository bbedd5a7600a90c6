"""How a sparse product runs: decided once from its parameters, within the limit on temporary memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...errors import bad_argument
from ...formats import FP32
from ...kernels import Kernel
from ...memo import remembered
from ...planner import Explanation, Memory, within
from ...program import rounded, whole_lines
from ...target import Target
from ..plans import KernelPlan
from .model import (
    TILE_COLUMNS,
    compute_format_of,
    panel_columns,
    panels_pay,
    reads_halves,
    selected,
    strip_of,
    takes_pairs,
    threads_of,
    writes,
)
from .params import SpmmParams, checked_params, itemsize_of

_CHUNK_BYTES = 1 << 15
_ALIGNMENT = 64
_ELEMENT_COLUMNS = 64
_SPECIAL_BYTES = 64
_INDEX_BYTES = 12  # of a gathered block: which it was, which it is
_STRIPS = (512, 256, 128, 96, TILE_COLUMNS, 48, 32)
_LEAST_STRIP = 16


@dataclass(frozen=True)
class SparsePlan(KernelPlan):
    """How a product of a block-sparse and a dense matrix runs. With the dense one on the left it is the transposes'.

    Attributes
    ----------
    params, memory, target, threads, selection
        As `KernelPlan` has them.
    compute_format : {"float32", "bfloat16", "float16"}
        What both operands are decoded to; "float16" is two BF16 numbers, for matrix units.
    decodes : bool
        Whether W's values are decoded before the product.
    pairs : bool
        Whether the rows of a block lie interleaved two by two then, or for tiles transposed.
    reorders : bool
        Whether single elements are put in the order of the transpose, so that two neighbours are a pair.
    packs : bool
        Whether X is copied to panels.
    finishes : bool
        Whether sums take the epilogue.
    strip : int
        Columns that are walked together.
    slice_blocks : int
        Blocks of W that are decoded at a time, those of some block rows, or 0 for all.
    block_bytes : int
        Bytes of a block as the multiplication reads it.
    scratch_bytes : int
        Temporary bytes of a thread: a panel of X and which rows it has, sums on their way to the epilogue.
    values_bytes, gathered_bytes, bias_bytes : int
        Temporary bytes of all threads: W's values decoded, blocks gathered for that, the bias decoded.
    longest : int
        Stored blocks of the longest block row of the pattern, where a limit bounds what is decoded at a time.
    """

    params: SpmmParams
    compute_format: str
    decodes: bool
    pairs: bool
    reorders: bool
    packs: bool
    finishes: bool
    strip: int
    slice_blocks: int
    block_bytes: int
    scratch_bytes: int
    values_bytes: int
    gathered_bytes: int
    bias_bytes: int
    longest: int = 0

    __hash__ = KernelPlan.__hash__

    @property
    def tiles(self) -> bool:
        """Whether blocks and panels are made of tiles."""
        return self.kernel.op == "multiply_tiles"

    @property
    def workspace_bytes(self) -> int:
        """Temporary bytes that threads share: W's values decoded, and the bias; 0 where both are read as they lie."""
        return whole_lines(self.values_bytes) + self.bias_bytes if self.bias_bytes else self.values_bytes

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands, each part from a cache line on."""
        if not self.params.columns or not self.params.shape[0]:
            return 0
        shared = whole_lines(self.workspace_bytes) + whole_lines(self.gathered_bytes)
        return self.threads * whole_lines(self.scratch_bytes) + shared

    def again(self) -> SparsePlan:
        """Plan the plan's own problem, or raise where it is none."""
        if type(self.longest) is not int or self.longest < 0:
            raise bad_argument("plan.longest", self.longest, "a number of blocks")
        return plan_spmm(self.op, checked_params(self.params), self.memory, self.target, lambda: self.longest)

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p = self.params
        (rows, depth), (high, wide), groups = p.shape, p.block_shape, f"{p.groups} x " * (p.groups > 1)
        values = "values decoded first" if self.decodes else "values read as they are stored"
        if self.slice_blocks:
            values = f"values decoded some block rows at a time, at most {self.slice_blocks} blocks"
        form = {"plain": "", "swapped": "transposed, ", "layer": "of a layer, "}[p.forms[2]]
        problem = (f"sparse_dense_matmul {groups}[{rows}, {depth}] x [{depth}, {p.columns}]: "
                   f"{form}up to {p.room} blocks of {high} x {wide}, {p.w_format} x {p.x.format} -> {p.y.format}")
        return self._explained(problem, f", compute format {self.compute_format}", {
            "W": f"{values}{', by its transpose' if p.transposed else ''}",
            "X": f"copied to panels of {self.strip} columns, used rows alone" if self.packs else "read as it lies",
            "sums": "through the epilogue" if self.finishes else "straight to the result",
        }, self.scratch_bytes, self.workspace_bytes + self.gathered_bytes)


def plan_spmm(op: str, params: SpmmParams, memory: Memory, target: Target, longest: Callable[[], int]) -> SparsePlan:
    """Return the fastest plan within the limit, or complain and return one with the limit raised.

    Parameters
    ----------
    op : str
        The op's public name, for the complaint.
    params : SpmmParams
    memory : Memory
    target : Target
        This CPU.
    longest : callable
        Returns the stored blocks of the longest block row of op(W), which W cannot be decoded in less than. Called only
        where all of W decoded does not fit.
    """
    fastest = _fastest(params, memory, target)
    if fastest.fits:
        return fastest
    most = longest() if fastest.decodes else 0
    plan, raised = within(op, lambda limit: _fitted(fastest, limit, most), memory, target,
                          lambda: list(_choices(fastest, 0, most))[-1].temporary_bytes, fastest.threads)
    return replace(plan, longest=most, raised=raised)


@remembered()
def _fastest(params: SpmmParams, memory: Memory, target: Target) -> SparsePlan:
    return _decided(params, memory, target, panels_pay(params))


@remembered(weight=4)
def _fitted(fastest: SparsePlan, limit: int | None, longest: int) -> SparsePlan | None:
    if limit is None:
        return fastest
    room = limit * fastest.threads
    return next((plan for plan in _choices(fastest, limit, longest) if plan.temporary_bytes <= room), None)


def _choices(fastest: SparsePlan, limit: int, longest: int) -> Iterator[SparsePlan]:
    """Yield plans, faster ones first, the last one the least that there is.

    Every strip reads W again, and X is packed again for some block rows of W decoded at a time: so rather narrow strips
    than many of these, but the narrowest last. Measured: 32 columns cost up to 1.4 times the time of 64; X as it lies,
    where panels were asked for by speed alone, 0.5 to 3 times.
    """
    f = fastest
    room = limit * f.threads
    panels = (True, False) if panels_pay(f.params) else (False,)

    def chosen(copied: bool, width: int, sliced: bool = False) -> SparsePlan:
        whole = _decided(f.params, f.memory, f.target, copied, width)
        if not sliced:
            return whole
        left = room - whole.threads * whole_lines(whole.scratch_bytes) - whole_lines(whole.bias_bytes) - 2 * _ALIGNMENT
        fit = min(left // (whole.block_bytes + _stored_bytes(f.params)), f.params.room)
        return _decided(f.params, f.memory, f.target, copied, width, max(1, longest, fit))

    for widths in ((0, *_STRIPS), (_LEAST_STRIP,)):
        shapes = [(copied, width) for copied in panels for width in widths]
        whole = [chosen(*shape) for shape in shapes]
        yield from whole
        if f.decodes:  # at least as much room for W's blocks as for the rest: few slices
            yield from (chosen(*shape, sliced=True) for shape, plan in zip(shapes, whole, strict=True)
                        if room >= 2 * plan.threads * whole_lines(plan.scratch_bytes))
    if f.decodes:
        yield chosen(*shapes[-1], sliced=True)


def _decided(p: SpmmParams, memory: Memory, target: Target, panels: bool, most_strip: int = 0,
             slice_blocks: int = 0) -> SparsePlan:
    """Make every decision of a product: with `panels` X is copied wherever it can be, in strips of `most_strip`
    columns at most."""
    compute = p.prepared or compute_format_of(p.w_format, p.x.format, p.block_shape)
    selection = selected(compute, p.x.format, p.block_shape)
    kernel = selection.kernel
    tiles = kernel.op == "multiply_tiles"
    size = itemsize_of("bfloat16" if compute == "bfloat16" else "float32")
    reorders = compute == "bfloat16" and p.transposed and p.block_shape == (1, 1)
    pairs = compute != "float32" and p.transposed and not reorders
    decodes = p.prepared is None and (p.w_format != compute or pairs or reorders or compute == "float16")
    paired = takes_pairs(p.shape[1], p.block_shape[0 if p.transposed else 1])
    packs = tiles or (not paired if p.x.pairs else not p.x.panel and (panels or not _swept(p, compute)))
    finishes = (p.bias is not None or p.activation is not None or not writes(kernel, p.y.format, p.block_shape)
                or p.y.strides[2] != itemsize_of(p.y.format) or not p.y.aligned)
    strip = _strip(p, compute, kernel, size, tiles, packs, finishes, most_strip)
    rows = rounded(p.block_shape[0], 2) if pairs else p.block_shape[0]
    block_bytes = rows * p.block_shape[1] * size + (_SPECIAL_BYTES if compute == "float16" else 0)
    return SparsePlan(
        p, memory, target, threads_of(p.multiplications, target), selection, compute, decodes, pairs, reorders, packs,
        finishes, strip, slice_blocks, block_bytes, _scratch(p, strip, size, tiles, packs, finishes),
        (slice_blocks or p.room) * block_bytes if decodes else 0, slice_blocks * _stored_bytes(p),
        0 if p.bias is None or p.bias.plain else FP32.itemsize * p.groups * p.shape[0])


def _swept(p: SpmmParams, compute: str) -> bool:
    """Whether the kernel can read X as it lies."""
    formats = (compute, "float16", "bfloat16") if reads_halves(compute) else (compute,)
    return p.x.format in formats and p.x.strides[2] == itemsize_of(p.x.format) and p.x.aligned


def _strip(p: SpmmParams, compute: str, kernel: Kernel, size: int, tiles: bool, packs: bool, finishes: bool,
           most: int) -> int:
    if tiles:
        return TILE_COLUMNS
    if p.x.panel:
        return p.x.panel
    if not (packs or finishes):
        return max(1, p.columns)
    rows, columns, _ = kernel.block  # columns that the kernel's tiles for such blocks divide
    fits = p.block_shape[p.transposed] >= rows > 1
    if packs and fits and columns == TILE_COLUMNS:
        return min(panel_columns(size, p.columns), most or TILE_COLUMNS)
    whole = columns if fits else TILE_COLUMNS
    fit = strip_of(p.shape[1] if packs else 1, size, p.columns, whole)
    if packs and p.block_shape == (1, 1) and compute == "float32":
        fit = min(fit, _ELEMENT_COLUMNS, rounded(max(1, p.columns), 16))
    return min(fit, most or fit)


def _scratch(p: SpmmParams, strip: int, size: int, tiles: bool, packs: bool, finishes: bool) -> int:
    rows, depth = p.block_shape[::-1] if p.transposed else p.block_shape
    blocks = -(-p.shape[1] // depth)
    panel = (blocks * depth if tiles else p.shape[1]) * strip * size
    used = whole_lines(panel) + whole_lines(blocks) if packs else 0
    chunk = max(1, _CHUNK_BYTES // (4 * strip * rows)) * rows * strip * 4
    return used + (chunk if finishes else 0)


def _stored_bytes(p: SpmmParams) -> int:
    """Bytes to gather a block before it is decoded, as a transpose's lie apart: codes, scale, two indices."""
    if not p.transposed:
        return 0
    rows, columns = p.block_shape
    return rows * columns * itemsize_of(p.w_format) + _INDEX_BYTES + (p.w_scale is None)
