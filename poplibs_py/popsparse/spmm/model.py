"""What is fastest, as measured: compute formats, kernels, strips of X, threads."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...formats import BF16, FORMATS
from ...kernels.registry import Kernel, Selection, select
from ...memo import tabled
from ...program import rounded, threads_for
from ...target import Target
from .params import SpmmParams, itemsize_of

TILE_COLUMNS = 64
"""Columns of a strip of X for matrix units."""

WORK_FOR_A_THREAD = 1 << 20
"""Multiplications below which a second thread costs more than it gains."""

_LEAST_COLUMNS = 48
_MOST_COLUMNS = 512
_ALIGNMENT = 64
_BF16_VALUED = tuple(f.name for f in FORMATS if f == BF16 or f.bits <= 8)

_HALVES = ("float16", "bfloat16")
_PAIR = 2

_READS_WORTH_A_COPY = 16
_LINE = 64
_NARROW_ROW = 512
_NEAR_ROW = 1024
_PAGE = 4096
_FEW_READS = 4
_FAR_COLUMNS = 128  # of X as it lies, which single elements walk as a whole at every level
_FAR_READS = 12
_FARTHER_READS = 24
_NARROW_READS = 6
_FAR = 1 << 22
_L2 = Target.host().bytes_per_tile


def threads_of(multiplications: int, target: Target) -> int:
    """Return how many threads a sparse product is worth."""
    return threads_for(multiplications, WORK_FOR_A_THREAD, target.tiles)


@tabled(128)
def compute_format_of(w_dtype: str, x_dtype: str, block_shape: tuple[int, int] = (1, 1)) -> str:
    """Return the compute format of a product of two formats, in such blocks.

    BF16 where it holds both and a kernel multiplies it here; FP16, as two BF16 numbers, where both are that and matrix
    units multiply such blocks; else FP32.
    """
    if w_dtype == x_dtype == "float16" and tiles_selected("float16", "float16", block_shape):
        return "float16"
    if w_dtype in _BF16_VALUED and x_dtype in _BF16_VALUED:
        try:
            select("sparse", "multiply", f"bfloat16,{x_dtype}->float32")
        except UnsupportedError:
            return "float32"
        return "bfloat16"
    return "float32"


def kernel_of(w_dtype: str, x_dtype: str, block_shape: tuple[int, int]) -> Kernel:
    """Return the kernel that multiplies these formats in such blocks."""
    return selected(compute_format_of(w_dtype, x_dtype, block_shape), x_dtype, block_shape).kernel


def selected(compute_format: str, x_dtype: str, block_shape: tuple[int, int]) -> Selection:
    """Return the kernel of a compute format, with the reasons against the others: one for tiles of matrix units where
    the blocks are such, else one for any blocks."""
    tiled = tiles_selected(compute_format, x_dtype, block_shape)
    return tiled or select("sparse", "multiply", f"{compute_format},{x_dtype}->float32")


@tabled(128)
def tiles_selected(compute_format: str, x_dtype: str, block_shape: tuple[int, int]) -> Selection | None:
    """Return the kernel of the matrix units for blocks that are multiples of its grain, where there is one."""
    try:
        selection = select("sparse", "multiply_tiles", f"{compute_format},{x_dtype}->float32")
    except UnsupportedError:
        return None
    rows, _, depth = selection.kernel.grain
    whole = all(side % grain == 0 for side in block_shape for grain in (rows, depth))
    return selection if whole else None


@tabled(128)
def reads_halves(compute_format: str) -> bool:
    """Whether the sweep widens 16-bit X by itself: every level does but the portable one."""
    if compute_format != "float32":
        return False
    return select("sparse", "multiply", "float32,float16->float32").kernel.level != "portable"


@tabled(128)
def prepares_pairs(compute_format: str) -> bool:
    """Whether X is prepared as rows of pairs, which the kernel of vectors multiplies."""
    if compute_format != "bfloat16":
        return False
    return select("sparse", "multiply", "bfloat16,bfloat16->float32").kernel.block[2] == _PAIR


def takes_pairs(depth: int, block_depth: int) -> bool:
    """Whether blocks of a depth, and the sum as a whole, are made of pairs."""
    return depth % 2 == 0 and block_depth % 2 == 0


def writes(kernel: Kernel, y_dtype: str, block_shape: tuple[int, int]) -> bool:
    """Whether a kernel rounds its sums to a format by itself: those of vectors do, but for single elements."""
    of_vectors = kernel.block[1] > 1 and kernel.block[2] <= _PAIR  # one number is the portable kernel's, more a tile's
    return y_dtype == "float32" or (y_dtype in _HALVES and of_vectors and block_shape != (1, 1))


def strip_of(depth: int, size: int, columns: int, whole: int) -> int:
    """Return the columns of a strip: the fewest that fill half of the L2 and are a multiple of `whole`.

    Each strip reads all of W again, so that narrow ones cost more than one that fills most of the L2. A strip of fewer
    columns has whole cache lines.
    """
    fit = max(_L2 // 2 // (max(1, depth) * size), _LEAST_COLUMNS)
    return min(rounded(fit, whole), panel_columns(size, columns, _MOST_COLUMNS // whole * whole))


def panel_columns(size: int, columns: int, whole: int = TILE_COLUMNS) -> int:
    """Return the columns of a panel whose blocks of rows lie together in memory, as tiles of so many columns meet them.

    Measured at m = k = 1024 to 4096, densities 1/4 to 1/32: such a panel is met up to 1.1 times as fast as a wider one,
    which the hardware does not fetch ahead; that W is read for each costs less.
    """
    line = _ALIGNMENT // size
    return min(rounded(max(1, columns), line), whole)


def panels_pay(p: SpmmParams) -> bool:
    """Whether X is copied to panels even where it could be read as it lies.

    Rows off a cache line take two of them, rows far apart fall into few sets of the caches, and those of a large X
    are met at random in memory: a copy is worth its while where each is read often enough. Measured for m = k = 1024
    to 4096, densities 1/4 to 1/128, blocks of 8 to 64. FP32 in half of the L2 takes 0.85 to 1.0 times as long where
    it lies, and so does more of it that is read 4 to 8 times, in rows of up to 2 KiB and up to 4 MiB in all; 16 reads
    take 0.97 to 1.13 times as long, rows of 4 KiB 1.05 to 1.19. BF16, which becomes pairs on the way, takes 0.9 to
    1.15 times as long in blocks of eights and up to 1.35 times in others; X that exceeds the L2 up to 1.4 times.
    Where W leaves the L2 too, and is read for each panel, rows that are not far apart take 0.75 to 1.0 times as long
    where they lie.
    """
    row_bytes = p.columns * itemsize_of(p.x.format)
    stored = p.blocks * p.block_shape[0] * p.block_shape[1]
    reads = stored / (max(1, p.groups * p.shape[1]) * min(8, p.block_shape[0]))
    x_bytes = p.shape[1] * row_bytes
    if p.block_shape == (1, 1):
        return _panels_pay_elements(p, reads, row_bytes, x_bytes)
    high, depth = p.block_shape[::-1] if p.transposed else p.block_shape
    if x_bytes > 2 * _FAR:
        return reads >= _FEW_READS
    if _pairs_in_panels(p, depth) or p.x.format == "float32":
        if high > 8 and row_bytes <= _NEAR_ROW and stored * itemsize_of(p.x.format) >= _FAR:
            return False
        if p.x.format == "float32" and row_bytes <= _PAGE // 2 and x_bytes < _FAR:
            return x_bytes > _L2 // 2 and reads >= _READS_WORTH_A_COPY
        if x_bytes > _L2:
            return reads >= _FEW_READS
        if p.x.format == "float32":
            return x_bytes > _L2 // 2 and reads >= _READS_WORTH_A_COPY // 2
        if high % 8 == 0 and depth % 8 == 0:
            return reads >= _READS_WORTH_A_COPY
        return reads >= (_READS_WORTH_A_COPY // 2 if row_bytes < _NARROW_ROW else _FEW_READS)
    if x_bytes > _FAR:
        return reads >= _FEW_READS
    if row_bytes < _NARROW_ROW // 2 or (high > 8 and row_bytes < _PAGE):
        worth = _READS_WORTH_A_COPY if row_bytes >= _NARROW_ROW // 2 else 2 * _READS_WORTH_A_COPY
        return row_bytes >= _LINE and reads >= worth
    return reads >= _READS_WORTH_A_COPY // 2


def _panels_pay_elements(p: SpmmParams, reads: float, row_bytes: int, x_bytes: int) -> bool:
    if _walks_whole_rows(p) and (row_bytes <= _PAGE // 2 or x_bytes > 2 * _FAR):
        return reads >= (_FARTHER_READS if x_bytes >= _FAR else _FAR_READS)
    return reads >= (_FEW_READS if x_bytes >= _FAR or row_bytes > _NARROW_ROW else _NARROW_READS)


def _pairs_in_panels(p: SpmmParams, block_depth: int) -> bool:
    compute = compute_format_of(p.w_format, p.x.format, p.block_shape)
    return prepares_pairs(compute) and takes_pairs(p.shape[1], block_depth)


def _walks_whole_rows(p: SpmmParams) -> bool:
    """Whether single elements meet X as it lies some vectors at a time, the next rows asked for ahead.

    Measured for FP32, m = k = 1024 to 16384: with 4 and 8 reads of a row 1.0 to 2.2 times as fast as panels; with 16
    0.7 to 0.9 times where X has less than 4 MiB, 0.7 to 1.7 times where it has more, and with 30 there 0.8 to 1.5
    times; a row of more than 2 KiB of an X in the L3 is better in panels.
    """
    return (p.block_shape == (1, 1) and p.columns % _FAR_COLUMNS == 0
            and compute_format_of(p.w_format, p.x.format) == "float32")
