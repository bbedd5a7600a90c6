"""Planning a dense product on this CPU: kernel, how operands reach it, block sizes, threads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...formats import BF16, FORMATS, FP16, FP32, Format
from ...kernels import Kernel, Selection, kernels, select
from ...log import tell
from ...memo import remembered
from ...planner import within
from ...program import rounded
from ...target import Target
from ._gemm import Mode, Sums
from .model import kernel_cycles, matrix_unit, threads_of
from .options import GemmOptions
from .params import GemmParams, MatrixLayout
from .plan import (
    FAR,
    HALF_PARTIALS_DEPTH,
    PIECES,
    TRANSPOSED_PIECES,
    WINDOW,
    Epilogue,
    GemmPlan,
    laid_out,
    prepared_bytes,
    row_pitch,
    taking_panels,
)

_DEPTHS = (2048, 1024, 512, 256, 128, 64)  # cells of depth that a block may have, beside the whole
_CACHE_SHARE = 0.6  # of the second-level cache, that a thread's blocks fill
_SMALL_DEPTHS = (256, 128, 64)  # the same for tiles, and to pack for good
_TILES_DEPTH = 2048  # numbers of the depth up to which tiles take all of it, and a sum is stored once
_TILES_PRODUCTS = 8  # of a matrix unit, in the time of one of the core's
_TILES_PANELS = 2  # of B, up to which tiles read A as it lies: they read it again for each
_TILES_CACHE_SHARE = 0.8  # as `_CACHE_SHARE`, of tiles: what they take from far they take slowly
_PREPARED_DEPTHS = (512, *_SMALL_DEPTHS)  # the same for an operand prepared
_PANEL = 64 << 10  # bytes that the whole depth of a prepared panel may take: it stays near for the next rows
_NARROW = 16  # columns of a panel that stays in the first-level cache, or near, beside more rows
_NARROW_PIECES = 6  # as `PIECES`, where no more rows meet such a prepared panel: 32 rows once
_GATHERED_SHARE = 1 / 16  # of the second-level cache, that rows take which one panel meets
_DIRECT_PIECES = 2  # as `PIECES`, where A is read as it lies: its rows may lie in the same lines of the cache
_LONG_RUN = 64  # cells of a field's run from which it is read tap by tap: sums are loaded and stored for each
_FEW_SUMS = 128  # of a kernel whose calls are so short that each costs: rows that no two taps meet are packed
_LINES = 3  # of the field in a block of rows, by the kernel's rows
_PACKING = 14.0  # products that a core makes in the time in which it packs one number
_FINDING = 40.0  # the same for each result and block of depth, in which it finds where the taps of some rows lie
_SMALL = 1 << 17  # bytes of B that stay in cache as they lie
FEW = 4
"""Columns that kernels of the dot form take at once."""
_ENTRIES = 4  # of a thread, from which it matters little that another has one more
_FLOPS_OF_A_RESULT = 32  # that take as long as to write it
_MANY = 64  # rows for which such columns are copied to the start of a cache line: loads elsewhere take two


def plan_gemm(params: GemmParams, options: GemmOptions, epilogue: Epilogue, target: Target,
              fixed: GemmPlan | None = None, packing: bool = False, left: bool = False, op: str = "matmul") -> GemmPlan:
    """Plan a product on the host.

    Parameters
    ----------
    params, options, epilogue, target
        The product, how it is wanted, on which machine.
    fixed : GemmPlan, optional
        The plan that an operand was prepared under: its kernel and compute format are kept.
    packing : bool, optional
        Plan for preparing an operand: its packing is the purpose.
    left : bool, optional
        That operand is A: as B of the transposed product.
    op : str, optional
        What a warning of the memory limit calls the product.
    """
    problem = _Problem(params, params.folded(), options, epilogue, target, fixed, packing)
    if left:
        problem = replace(problem, params=params.swapped().folded(), swapped=True)
    elif not (fixed or packing) and _better_swapped(problem.params):
        problem = replace(problem, params=problem.params.swapped(), swapped=True)

    def least() -> int:
        found = (_plan_within(p, None, least=True) for p in (problem, _plain(problem)))
        return min(p.temporary_bytes for p in found if p)

    threads, _ = _threads(problem.params, target)
    plan, raised = within(op, lambda limit: _planned(problem, limit), options.memory, target, least, threads)
    return plan if raised is None else replace(plan, raised=raised)


@remembered()
def _planned(problem: _Problem, limit: int | None) -> GemmPlan | None:
    # without a limit blocks fit the cache all the same, where any do
    fits = int(_cache_share(problem) * problem.target.bytes_per_tile) if limit is None else limit
    plan = _plan_within(problem, fits) or _plan_within(_plain(problem), fits)  # a matrix unit's least block is large
    plan = plan or (_plan_within(problem, None) if limit is None else None)
    if plan is None:
        return None
    plan = replace(plan, memory_limit=problem.options.memory.limit(problem.target))
    tell("poplin", plan)
    return plan


def _cache_share(problem: _Problem) -> float:
    """How much of the second-level cache a thread's blocks fill."""
    units = _units(problem.params.a.format, problem.params.b.format, problem.options)
    return _TILES_CACHE_SHARE if units and matrix_unit() else _CACHE_SHARE


def _plain(problem: _Problem) -> _Problem:
    """The problem with FP32 as its compute format, where that is not settled."""
    return problem if problem.fixed or problem.packing else replace(problem, compute_format=FP32)


@dataclass(frozen=True)
class _Problem:
    """What is planned, and what is settled before the search."""

    product: GemmParams
    params: GemmParams
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    fixed: GemmPlan | None
    packing: bool
    swapped: bool = False
    compute_format: Format | None = None  # where it is settled


def _better_swapped(p: GemmParams) -> bool:
    """Whether the transposed product reads the large operand better: along its lines, once."""
    if p.out.field is not None:
        return False
    if min(p.m, p.n) > FEW or p.fields:  # sums in place, or results in whole lines
        return p.out.row == p.out.format.itemsize != p.out.column and p.m > FEW
    if p.m <= FEW and p.n > FEW:  # dots of A's few rows with B's columns, where those are contiguous
        return p.b.row == p.b.format.itemsize != p.b.column
    if p.n <= FEW and p.m > FEW:  # few columns, and A lies across them
        return p.a.row == p.a.format.itemsize != p.a.column
    return False


@remembered()  # a call beyond its limit climbs the ladder each time
def _plan_within(problem: _Problem, limit: int | None, least: bool = False) -> GemmPlan | None:
    """Return the best plan whose scratch fits `limit` bytes a thread; None if there is none."""
    params, options, fixed = problem.params, problem.options, problem.fixed
    settled = problem.compute_format or (fixed and fixed.compute_format)
    compute = settled or compute_format_of(params, options, problem.packing)
    split = parts(params) if compute == BF16 else (1, 1)
    threads, grid = _threads(params, problem.target)
    m, n = max(1, -(-params.m // grid[0])), max(1, -(-params.n // grid[1]))
    selection = fixed.selection if fixed else _kernel(problem, compute, m, n, split)
    kernel = selection.kernel
    a_modes = _modes_of_a(params, compute, kernel, n, problem.options)
    b_mode = int(Mode.PREPARED) if fixed else _mode_of_b(params, compute, kernel, m, n)
    if problem.packing and b_mode == Mode.DIRECT:
        b_mode = int(Mode.LINES)
    draft = GemmPlan(problem.product, params, options, problem.epilogue, problem.target, compute, selection, a_modes[0],
                     b_mode, int(Sums.IN_PLACE), m, n, params.k, grid, threads, (), limit, problem.swapped, split)
    plans = (_blocked(replace(draft, a_mode=mode), m, n, least, problem.packing)
             for mode in (a_modes[-1:] if least else a_modes))
    plan = next((plan for plan in plans if plan), None)
    if plan is None or split == (1, 1) or problem.packing:
        return plan
    whole = _plan_within(replace(problem, fixed=None, compute_format=FP32), limit, least)
    return whole and replace(plan, fallback=whole)


def _kernel(problem: _Problem, compute: Format, m: int, n: int, split: tuple[int, int]) -> Selection:
    """Choose the kernel: of the dot form for few columns, where it may reorder sums, else the cheapest by steps."""
    if split != (1, 1):
        return select("dot", "multiply_parts", compute.name)
    free = not (problem.options.reproducible or problem.packing)
    dots = {k.formats for k in kernels("dot") if k.op == "multiply_dots"}
    if n <= FEW and m > 1 and free and compute.name in dots:
        a = problem.params.a
        mixed = f"{a.format},{compute}"  # for A as it lies, of half the bytes
        lies_along = a.field is None and a.plain and a.aligned and a.column == a.format.itemsize and not problem.fixed
        return select("dot", "multiply_dots", mixed if lies_along and mixed in dots else compute.name)
    return select(
        "dot",
        "multiply",
        compute.name,
        consistent=problem.options.reproducible,
        cost=lambda kernel: kernel_cycles(taking_panels(kernel, m) if problem.packing else kernel, m, n),
    )


def compute_format_of(params: GemmParams, options: GemmOptions, any_shape: bool = False) -> Format:
    """Return the compute format of a product: BF16 where products are exact in it and a unit takes it, else FP32."""
    a, b = params.a, params.b
    if any(x.format in (BF16, FP16) and not x.plain for x in (a, b)):
        return FP32
    units = _units(a.format, b.format, options)
    if units == "multiply_parts" and not any_shape and min(params.m, params.n) <= FEW:
        return FP32  # a matrix unit would work on padding
    return BF16 if units else FP32


def parts(params: GemmParams) -> tuple[int, int]:
    """Return how many BF16 numbers an element of A, of B is split in on BF16 units."""
    a, b = (2 if x.format == FP16 else 1 for x in (params.a, params.b))
    return a, b


def meets_packed(plan: GemmPlan, params: GemmParams, options: GemmOptions, *, left: bool = False,
                 whole: bool = False) -> bool:
    """Return whether the other operand of a product becomes panels that one packed under a plan multiplies with.

    That is the left one if `left` says so. Numbers in parts need it `whole` too, for a call that is not finite.
    """
    split = parts(params)
    return plan.compute_format == FP32 or (
        compute_format_of(params, options, any_shape=True) == plan.compute_format
        and split[0 if left else 1] == plan.parts[1] and (split == (1, 1) or whole))


def _units(a: Format, b: Format, options: GemmOptions) -> str:
    """Return the kernels' op that takes these formats as BF16 here; empty if none does."""
    if options.reproducible:
        return ""
    exact = [f == BF16 or (f in FORMATS and f.bits <= 8) for f in (a, b)]
    split = [f == FP16 for f in (a, b)]
    if not all(e or s for e, s in zip(exact, split, strict=True)):
        return ""
    op = "multiply_parts" if any(split) else "multiply"
    return op if any(k.op == op and k.formats == BF16.name for k in kernels("dot")) else ""


def on_units(a: Format, b: Format, options: GemmOptions) -> bool:
    """Whether BF16 units multiply these formats here, each number as one."""
    return _units(a, b, options) == "multiply"


def may_flush(a: Format, b: Format, options: GemmOptions) -> bool:
    """Whether products of these formats run on BF16 units here, which take subnormals for zero."""
    return bool(_units(a, b, options)) and not a == b == FP16


def passes(a: Format, b: Format, options: GemmOptions) -> int:
    """Products that one product of operands takes here: more than one where a matrix unit splits FP16."""
    if _units(a, b, options) != "multiply_parts":
        return 1
    return options.half_passes if a == b else 2


def _threads(params: GemmParams, target: Target) -> tuple[int, tuple[int, int]]:
    """Share the work: threads, and rectangles of each product by rows and columns."""
    entries = max(1, params.entries)
    threads = threads_of(max(params.flops, _FLOPS_OF_A_RESULT * params.m * params.n * entries), target)
    if threads == 1 or entries >= _ENTRIES * threads or entries % threads == 0:
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


def _modes_of_a(p: GemmParams, compute: Format, kernel: Kernel, n: int, options: GemmOptions) -> list[int]:
    """How to read A: the best way first, the one that takes least room last.

    Where it lies, if it is in the compute format and its lines run along the depth, or runs of a field do. Rows of a
    field that no two taps meet are better packed where a call is short.
    """
    a = p.a
    if a.field is not None and not a.scales and kernel.takes_tiles and options.partials_type == "float" and (
            a.field.even(a.format.itemsize) and a.field.channels % kernel.grain[2] == 0):
        return [int(Mode.DIRECT), int(Mode.LINES)]
    if a.field is not None and not a.scales and kernel.op == "multiply" and (
            a.aligned if a.format == compute and a.plain else _decoded_for_taps(a, compute)):
        cells, grain = a.field.run(a.format.itemsize) * compute.itemsize // 4, kernel.grain[2]
        if cells >= _LONG_RUN and kernel.grain[0] == 1 and a.field.channels % grain == 0 and (
                options.partials_type == "float"):
            if a.field.taps == 1 and kernel.block[0] * kernel.block[1] <= _FEW_SUMS:
                return [int(Mode.LINES), int(Mode.DIRECT)]
            return [int(Mode.DIRECT)]
    along = a.column == a.format.itemsize
    whole = a.field is None and a.plain and a.aligned and p.k % kernel.grain[2] == 0 and p.m % kernel.grain[0] == 0
    across = compute == FP32 and n <= kernel.block[1] and kernel.op == "multiply"
    taken = a.format == compute or kernel.formats == f"{a.format},{compute}"
    if taken and whole and (along or across) and not (kernel.takes_tiles and _packed_for_tiles(kernel, n, p.k)):
        return [int(Mode.DIRECT)]
    across = a.row == a.format.itemsize and not along if a.field is None else not a.field.along_depth(a.format.itemsize)
    return [int(Mode.TRANSPOSED if across and kernel.op != "multiply_dots" else Mode.LINES)]


def _packed_for_tiles(kernel: Kernel, n: int, k: int) -> bool:
    """Whether tiles are better given packed rows of A than those that lie as they are: many panels meet each."""
    return n > _TILES_PANELS * kernel.block[1] and k <= _TILES_DEPTH


def _decoded_for_taps(a: MatrixLayout, compute: Format) -> bool:
    """Whether elements of another format are decoded once for all taps: there are several, and a line's fit."""
    assert a.field is not None
    return a.field.taps > 1 and a.field.window(1) * compute.itemsize <= WINDOW


def _mode_of_b(p: GemmParams, compute: Format, kernel: Kernel, m: int, n: int) -> int:
    """Read B where it lies if its lines are as the kernel reads them and few rows or a small B make packing a loss."""
    b, size = p.b, p.b.format.itemsize
    whole = b.field is None and b.format == compute and b.plain and b.aligned and p.k % kernel.grain[2] == 0
    if kernel.op == "multiply_dots":
        return int(Mode.DIRECT if whole and b.row == size and m < _MANY else Mode.ALONG)
    small = m <= 2 * kernel.block[0] or p.k * n * size <= _SMALL
    if whole and compute == FP32 and b.column == size and small:
        return int(Mode.DIRECT)
    along = b.row == size and b.column != size if b.field is None else b.field.along_depth(size)
    return int(Mode.TRANSPOSED if along else Mode.LINES)


def _blocked(plan: GemmPlan, m: int, n: int, least: bool, packing: bool) -> GemmPlan | None:
    """Choose block sizes that fit the limit with the least work beside the products; `least` asks for the smallest."""
    rows, cols, _ = plan.kernel.block
    if least:
        return _widest(_with_depth(plan, _depths(plan, packing)[-1]), rows, cols)
    best: GemmPlan | None = None
    seen: set[tuple[int, int]] = set()
    for depth in _depths(plan, packing):
        deep = _with_depth(plan, depth)
        for mc in _heights(deep, m, n):
            if (deep.kc, mc) in seen:
                continue
            seen.add((deep.kc, mc))
            fit = _widest(deep, mc, min(rounded(max(1, n), cols), _kept_columns(deep, mc, m)))
            if fit is None:
                continue
            short = plan.a_mode == Mode.TRANSPOSED and fit.packed_rows < min(m, 32)  # lines to pack
            if deep.kc >= plan.params.k and fit.nc >= n and (deep.sums != Sums.BLOCK or mc >= m) and not short:
                return fit  # everything is packed once
            if best is None or _overhead(fit, m, n) < _overhead(best, m, n):
                best = fit
    return best


def _depths(plan: GemmPlan, packing: bool) -> list[int]:
    """Depths that a block may have, the deepest first; the last is the least that a kernel takes well.

    Small to pack for good, piece by piece, and for tiles, which reload both operands; moderate for an operand prepared,
    whose panel comes from memory and must stay for the next rows: all if a panel is small, or, for rows that are read
    tap by tap, which are many, if it stays in the second-level cache.
    """
    tiles = plan.kernel.takes_tiles
    prepared = plan.b_mode == Mode.PREPARED
    some = _SMALL_DEPTHS if tiles or packing else _PREPARED_DEPTHS if prepared else _DEPTHS
    if plan.even:
        return [plan.params.k]
    least = max(plan.kernel.grain[2], 16 * plan.elements)
    if plan.window_bytes and plan.params.a.field:  # each part of the depth decodes what its own taps meet
        return [*plan.params.a.field.laps, least]
    depths = [*(d * plan.elements for d in some), least]
    panel = plan.params.k * plan.kernel.block[1] * plan.compute_format.itemsize
    most = _CACHE_SHARE * plan.target.bytes_per_tile if plan.by_taps else _PANEL
    stays = not packing and panel <= most
    shallow = plan.params.k > _TILES_DEPTH if tiles else prepared and not stays
    return depths if packing or shallow else [max(1, plan.params.k), *depths]


def _heights(plan: GemmPlan, m: int, n: int) -> list[int]:
    """Rows that a block may have: few, or many where B is packed anew for each block; all where none is read again."""
    rows, cols, _ = plan.kernel.block
    most = rounded(max(1, m), rows)
    if plan.even:
        return [most]
    as_it_lies = plan.a_mode == Mode.DIRECT and plan.b_mode != Mode.PREPARED  # a prepared panel comes from memory
    several = _DIRECT_PIECES if as_it_lies else PIECES
    if plan.b_mode == Mode.PREPARED and cols <= _NARROW and most <= _NARROW_PIECES * rows:
        several = _NARROW_PIECES
    pieces = [1] if plan.kernel.op == "multiply_dots" else [several, 1]  # dots take long rows: few fill the cache
    if plan.a_mode == Mode.TRANSPOSED:
        pieces.insert(0, TRANSPOSED_PIECES)
    if plan.sums == Sums.BLOCK and plan.b_mode not in (Mode.DIRECT, Mode.PREPARED):
        pieces = [512, 256, 128, 64, 32, 16, *pieces]
    elif plan.a_mode == Mode.DIRECT and n <= cols and not plan.by_taps:
        pieces.insert(0, most // rows)
    elif plan.a_mode == Mode.LINES and plan.params.a.field and n <= cols:  # each block has costs, and is read once
        pieces.insert(0, int(_GATHERED_SHARE * plan.target.bytes_per_tile) // (rows * row_pitch(plan)) or 1)
    heights = [min(x * rows, most) for x in pieces]
    if plan.by_taps and plan.params.a.field:  # lines of the field, so many that their ends fill the kernel's rows too
        *before, line = (dim.positions for dim in plan.params.a.field.dims)
        lines = before[-1] if before else 1
        part = -(-lines // -(-lines // (_LINES * rows))) * line
        shares = (rounded(-(-line // -(-line // h)), rows) for h in heights if h < line)  # of a long line
        heights = [min(most, height) for height in (*(max(1, h // part) * part for h in heights), line, *shares, rows)]
    return list(dict.fromkeys(heights))


def _kept_columns(plan: GemmPlan, mc: int, m: int) -> int:
    """Columns of B prepared to take at once: all, or where a large B would be read again for each block of rows, those
    that stay in the second-level cache."""
    cols, cache = plan.kernel.block[1], plan.target.bytes_per_tile
    if plan.b_mode != Mode.PREPARED or mc >= m or prepared_bytes(plan) <= FAR * cache:
        return rounded(max(1, plan.params.n), cols)
    return max(cols, cache // 2 // (plan.kc * plan.compute_format.itemsize * plan.parts[1]) // cols * cols)


def _with_depth(plan: GemmPlan, depth: int) -> GemmPlan:
    """Return the plan with its blocks about `depth` deep, and where sums are then kept."""
    k, half = plan.params.k, plan.options.partials_type == "half"
    kc = HALF_PARTIALS_DEPTH if half else _even_depth(k, depth, plan.kernel.grain[2])
    plan = replace(plan, kc=kc)
    whole = k <= kc and not half
    in_place = plan.writes_results and not (plan.even or (plan.by_taps and plan.params.out.format != FP32))
    return replace(plan, sums=int(Sums.IN_PLACE if in_place else Sums.TILE if whole else Sums.BLOCK))


def _overhead(plan: GemmPlan, m: int, n: int) -> float:
    """Packing, finding of taps and moving of sums for each product, in products: to pack an FP32 number is 14 or so."""
    packing = _PACKING * plan.elements * (_TILES_PRODUCTS if plan.kernel.takes_tiles else 1)
    a = plan.params.a
    bytes_in_line = plan.a_mode == Mode.LINES and a.field is None and a.format.itemsize == 1 and plan.elements == 2
    packs_a = packing / 4 if plan.a_mode == Mode.DIRECT or bytes_in_line else packing  # read or decoded again
    if plan.a_mode == Mode.TRANSPOSED:
        packs_a *= 1 + 32 / plan.packed_rows  # short lines
    if plan.by_taps and a.field:
        packs_a /= max(1, a.field.taps)  # a number is near when its other taps read it
    if plan.window_bytes and a.field:
        whole, lap, *_ = a.field.laps
        decoded = plan.window_bytes // plan.compute_format.itemsize * max(1.0, lap / plan.kc)
        packs_a += packing * decoded / (plan.window_lines * a.field.dims[-1].positions * whole)
    packs_b = 0.0 if plan.b_mode in (Mode.DIRECT, Mode.PREPARED) else packing
    again = plan.mc if plan.sums == Sums.BLOCK else m
    each_block = (0.0 if plan.sums == Sums.TILE or plan.narrow else packing / 2) + (_FINDING if plan.by_taps else 0.0)
    return packs_a / min(plan.nc, n) + packs_b / min(again, m) + each_block / min(plan.kc, max(1, plan.params.k))


def _widest(plan: GemmPlan, mc: int, nc: int) -> GemmPlan | None:
    """Return the plan with the most columns, at most nc, that fits its limit."""
    cols, limit = plan.kernel.block[1], plan.memory_limit

    def with_panels(count: int) -> GemmPlan:
        return replace(plan, mc=mc, nc=count * cols, layout=laid_out(plan, mc, count * cols))

    most = with_panels(nc // cols)
    if limit is None or most.scratch_bytes <= limit:
        return most
    one, count = with_panels(1), nc // cols
    if count == 1 or one.scratch_bytes > limit:
        return one if one.scratch_bytes <= limit else None
    step = max(1, (most.scratch_bytes - one.scratch_bytes) // (count - 1))
    count = min(count - 1, 1 + (limit - one.scratch_bytes) // step)  # the bytes grow by about as much for each panel
    while (trial := with_panels(count)).scratch_bytes > limit:
        count -= 1
    return trial


def _even_depth(k: int, depth: int, grain: int) -> int:
    """Depth of blocks: k in equal parts of about `depth`."""
    parts = max(1, round(k / depth))
    return max(grain, rounded(-(-k // parts), grain))
