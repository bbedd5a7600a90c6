"""Sparse times dense: from shapes, formats and strides to a program that serves every pattern of these shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedError
from ...formats import BF16, FORMATS, format_of
from ...kernels.registry import Kernel, select
from ...log import tell
from ...program import Executable
from .items import ACTIVATIONS, FORMAT_NUMBERS, MULTIPLY, READY, infinite_overflow

__all__ = ["TILE_COLUMNS", "Dense", "Product", "Ready", "Values", "domain_of", "items_of", "itemsize_of", "kernel_of",
           "panel_columns", "program", "ready_program", "strip_of"]

Array = np.ndarray[Any, Any]

_L2_PANEL = 1 << 19
_STREAM_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 15
_ALIGNMENT = 64
_LEAST_COLUMNS = 48
_MOST_COLUMNS = 512
TILE_COLUMNS = 64
"""Columns of a strip of X for matrix units."""
_ELEMENT_COLUMNS = 64
_SPECIAL_BYTES = 64
_INDEX_BYTES = 12  # of a gathered block: which it was, which it is
_ITEMSIZES = {f.name: f.itemsize for f in FORMATS}
_BF16_VALUED = tuple(f.name for f in FORMATS if f == BF16 or f.bits <= 8)


@dataclass(frozen=True)
class Dense:
    """A dense operand: its format, the exponent of its scale, and bytes between groups, rows and columns.

    `panel` is the columns of a strip where X was prepared as panels, else 0.
    """

    format: str
    strides: tuple[int, int, int]
    scale: int = 0
    panel: int = 0
    aligned: bool = True


@dataclass(frozen=True)
class Values:
    """The blocks of W: format, exponent of the scale (None: one for each block), how many to make room for."""

    format: str
    scale: int | None
    capacity: int


class Ready(NamedTuple):
    """W's values as a multiplication in a domain reads them, made before it."""

    domain: str
    values: Array


@dataclass(frozen=True)
class Product:
    """Everything about ``Y = epilogue(op(W) X)`` that its program depends on.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of op(W), in elements.
    block_shape : (int, int)
        Rows and columns of a block of W as it is stored.
    groups, columns, threads : int
        Products side by side; columns of X and Y; threads to run on.
    transposed : bool
        Whether op(W) is the transpose of what is stored.
    domain : {"float32", "bfloat16", "float16"}
        What both operands are decoded to; "float16" is two BF16 numbers, for matrix units.
    w, x, y : Values, Dense, Dense
    bias : bool
        Whether there is one number to add for each row.
    activation : str or None
    panels : bool
        Whether to copy X to panels even where it could be read as it lies.
    most_strip : int
        The most columns that are walked together, or 0 for as many as are fastest.
    slice_blocks : int
        Blocks of W that are decoded at a time, those of some block rows, or 0 for all.
    ready : bool
        Whether W's values come as the multiplication reads them.
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    groups: int
    columns: int
    threads: int
    transposed: bool
    domain: str
    w: Values
    x: Dense
    y: Dense
    bias: bool = False
    activation: str | None = None
    panels: bool = False
    most_strip: int = 0
    slice_blocks: int = 0
    ready: bool = False

    @property
    def kernel(self) -> Kernel:
        """What multiplies: a kernel for tiles of matrix units where the blocks are such, else one for any blocks."""
        return _kernel_in(self.domain, self.x.format, self.block_shape)

    def decisions(self) -> list[str]:
        """What was decided whatever the pattern, in words, a line for each."""
        lies = "values decoded first" if self.decodes else "values read as they are stored"
        if self.slice_blocks:
            lies = f"values decoded some block rows at a time, at most {self.slice_blocks} blocks"
        x = f"copied to panels of {self.strip} columns, used rows alone" if self.packs else "read as it lies"
        return [
            f"  kernel    {self.kernel.name} ({self.kernel.level}), products in {self.domain}",
            f"  W         {lies}{', by its transpose' if self.transposed else ''}",
            f"  X         {x}",
            f"  sums      {'through the epilogue' if self.finishes else 'straight to the result'}",
            f"  threads   {self.threads}, shares of equal stored blocks",
        ]

    def __str__(self) -> str:
        (rows, depth), (height, width), groups = self.shape, self.block_shape, f"{self.groups} x " * (self.groups > 1)
        return "\n".join([
            f"sparse product {groups}[{rows}, {depth}] x [{depth}, {self.columns}], blocks of {height} x {width}: "
            f"{self.w.format} x {self.x.format} -> {self.y.format}",
            *self.decisions(),
        ])

    @property
    def tiles(self) -> bool:
        """Whether blocks and panels are made of tiles."""
        return _tiles_kernel(self.domain, self.x.format, self.block_shape) is not None

    @property
    def pairs(self) -> bool:
        """Whether the rows of a block must lie interleaved two by two, or for tiles transposed."""
        return self.domain != "float32" and self.transposed and not self.reorders

    @property
    def reorders(self) -> bool:
        """Whether single elements are put in the order of the transpose, so that two neighbours are a pair."""
        return self.domain == "bfloat16" and self.transposed and self.block_shape == (1, 1)

    @property
    def decodes(self) -> bool:
        """Whether W's values must be made ready before the product."""
        unlike = self.w.format != self.domain or self.pairs or self.reorders or self.domain == "float16"
        return unlike and not self.ready

    @property
    def size(self) -> int:
        """Bytes of an element in the domain."""
        return 2 if self.domain == "bfloat16" else 4

    @property
    def block_bytes(self) -> int:
        """Bytes of a block as the multiplication reads it."""
        rows = -(-self.block_shape[0] // 2) * 2 if self.pairs else self.block_shape[0]
        return rows * self.block_shape[1] * self.size + (_SPECIAL_BYTES if self.domain == "float16" else 0)

    @property
    def packs(self) -> bool:
        """Whether X has to be copied to panels."""
        if self.tiles:
            return True
        if self.x.panel:
            return False
        if self.panels:
            return True
        sweeps = (self.domain, "float16", "bfloat16") if _reads_halves(self.domain) else (self.domain,)
        return self.x.format not in sweeps or self.x.strides[2] != itemsize_of(self.x.format) or not self.x.aligned

    @property
    def finishes(self) -> bool:
        """Whether sums take the epilogue."""
        return (self.bias or self.activation is not None or self.y.format != "float32" or self.y.strides[2] != 4
                or not self.y.aligned)

    @property
    def strip(self) -> int:
        """Columns that are walked together."""
        if self.tiles:
            return TILE_COLUMNS
        if self.x.panel:
            return self.x.panel
        if self.packs or self.finishes:
            fit = strip_of(self.shape[1] if self.packs else 1, self.size, self.columns, self._whole_tiles)
            fit = min(fit, _ELEMENT_COLUMNS, -(-max(1, self.columns) // 16) * 16) if self._elements else fit
            return min(fit, self.most_strip or fit)
        return max(1, self.columns)

    @property
    def _whole_tiles(self) -> int:
        # Columns that the kernel's tiles for such blocks divide.
        rows, columns, _ = self.kernel.block
        return columns if self.block_shape[self.transposed] >= rows > 1 else TILE_COLUMNS

    @property
    def _elements(self) -> bool:
        return self.packs and self.block_shape == (1, 1) and self.domain == "float32"

    @property
    def scratch_bytes(self) -> int:
        """Temporary bytes of a thread: a panel of X and which rows it has, sums on their way to the epilogue."""
        rows, depth = self.block_shape[::-1] if self.transposed else self.block_shape
        blocks = -(-self.shape[1] // depth)
        panel = (blocks * depth if self.tiles else self.shape[1]) * self.strip * self.size
        used = _aligned(panel) + _aligned(blocks) if self.packs else 0
        chunk = max(1, _CHUNK_BYTES // (4 * self.strip * rows)) * rows * self.strip * 4
        return used + (chunk if self.finishes else 0)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of W's values made ready, for all threads."""
        return (self.slice_blocks or self.w.capacity) * self.block_bytes if self.decodes else 0

    @property
    def stored_bytes(self) -> int:
        """Bytes to gather a block before it is decoded, as a transpose's lie apart: codes, scale, two indices."""
        rows, columns = self.block_shape
        codes = rows * columns * itemsize_of(self.w.format)
        return codes + _INDEX_BYTES + (self.w.scale is None) if self.transposed else 0

    @property
    def gathered_bytes(self) -> int:
        """Bytes of the blocks that are gathered at a time."""
        return self.slice_blocks * self.stored_bytes

    @property
    def n_operands(self) -> int:
        """Arrays that a call passes."""
        return 5 + self.transposed + self.bias + (self.w.scale is None)


def itemsize_of(name: str) -> int:
    """Return the bytes of an element of a format that has a dtype."""
    return _ITEMSIZES[name]


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def kernel_of(w_format: str, x_format: str, block_shape: tuple[int, int]) -> Kernel:
    """Return the kernel that multiplies these formats in such blocks."""
    return _kernel_in(domain_of(w_format, x_format, block_shape), x_format, block_shape)


def _kernel_in(domain: str, x_format: str, block_shape: tuple[int, int]) -> Kernel:
    tiled = _tiles_kernel(domain, x_format, block_shape)
    return tiled or select("sparse", "multiply", f"{domain},{x_format}->float32").kernel


@lru_cache
def _tiles_kernel(domain: str, x_format: str, block_shape: tuple[int, int]) -> Kernel | None:
    # The kernel of the matrix units for blocks that are multiples of its grain, where there is one.
    try:
        kernel = select("sparse", "multiply_tiles", f"{domain},{x_format}->float32").kernel
    except UnsupportedError:
        return None
    rows, _, depth = kernel.grain
    whole = all(side % grain == 0 for side in block_shape for grain in (rows, depth))
    return kernel if whole else None


@lru_cache
def domain_of(w_format: str, x_format: str, block_shape: tuple[int, int] = (1, 1)) -> str:
    """Return what two formats meet in, in such blocks.

    BF16 where it holds both and a kernel multiplies it here; FP16 where both are that and matrix units multiply such
    blocks; else FP32.
    """
    if w_format == x_format == "float16" and _tiles_kernel("float16", "float16", block_shape):
        return "float16"
    if w_format in _BF16_VALUED and x_format in _BF16_VALUED:
        try:
            select("sparse", "multiply", f"bfloat16,{x_format}->float32")
        except UnsupportedError:
            return "float32"
        return "bfloat16"
    return "float32"


@lru_cache
def _reads_halves(domain: str) -> bool:
    # Whether the sweep widens 16-bit X by itself: every level does but the portable one.
    return domain == "float32" and select("sparse", "multiply", "float32,float16->float32").kernel.level != "portable"


def strip_of(depth: int, size: int, columns: int, whole: int) -> int:
    """Return the columns of a panel: the fewest that fill half of the L2 and are a multiple of `whole`.

    Each strip reads all of W again, so that narrow ones cost more than a panel that fills most of the L2. A panel of
    fewer columns has whole cache lines. Measured for FP32 and blocks of 8 rows or more, at m = k = 4096: strips of 48
    columns, which tiles of 8 x 48 fill, take 0.74 to 0.96 of the time of 64.
    """
    fit = max(_L2_PANEL // (max(1, depth) * size), _LEAST_COLUMNS)
    line = _ALIGNMENT // size
    return min(-(-fit // whole) * whole, -(-max(1, columns) // line) * line, _MOST_COLUMNS // whole * whole)


def panel_columns(depth: int, domain: str, columns: int) -> int:
    """Return the columns of the strips that X is prepared in for a domain."""
    if domain == "bfloat16" and _tiles_kernel(domain, domain, (32, 32)):
        return TILE_COLUMNS
    return strip_of(depth, itemsize_of(domain), columns, TILE_COLUMNS)


@lru_cache(maxsize=256)
def program(product: Product) -> Executable:
    """Return the executable of a product.

    Its operands are row offsets, column indices, values, X, Y, then those of these that there are: the places of a
    transposed pattern's blocks, the bias, the scales of the blocks.
    """
    p = product
    tell("popsparse", p)
    items, tiles = items_of(p)
    n_operands = p.n_operands
    compute_sets = [[(p.kernel.address, items, tiles)]]
    if p.decodes:
        items["values"] = n_operands
        compute_sets.insert(0, [_ready_segment(p, n_operands, 5, n_operands - 1)])
    return Executable(compute_sets, n_operands, p.threads, p.scratch_bytes, p.workspace_bytes, p.threads)


@lru_cache(maxsize=64)
def ready_program(p: Product) -> Executable:
    """Return what makes the values of a product's W ready.

    Its operands are row offsets, column indices, values, where the ready ones go, then those of these that there are:
    the places of a transposed pattern's blocks, the scales of the blocks.
    """
    n_operands = 4 + p.transposed + (p.w.scale is None)
    return Executable([[_ready_segment(p, 3, 4, n_operands - 1)]], n_operands, p.threads, 0, 0, p.threads)


def _ready_segment(p: Product, to: int, order: int, scales: int) -> tuple[int, Array, Array]:
    items = np.zeros(p.threads, READY)
    stored_rows = p.shape[1] if p.transposed else p.shape[0]
    n_rows = p.groups * -(-stored_rows // p.block_shape[0])
    if p.transposed:  # as many blocks as the transpose's offsets end at
        n_rows = p.groups * -(-p.shape[0] // p.block_shape[1])
    items["n_rows"] = n_rows
    items["from"], items["to"], items["scales"] = 2, to, scales if p.w.scale is None else -1
    items["order"] = order if p.reorders else -1
    items["part"], items["parts"] = np.arange(p.threads), p.threads
    items["format"], items["scale"] = FORMAT_NUMBERS[p.w.format], p.w.scale or 0
    items["block_rows"], items["block_columns"] = p.block_shape
    items["pairs"] = p.pairs
    op = "ready_tiles" if p.tiles and (p.transposed or p.domain == "float16") else "ready"
    return select("sparse", op, f"{p.w.format}->{p.domain}").kernel.address, items, np.arange(p.threads)


def items_of(p: Product) -> tuple[Array, Array]:
    """Return the work items of the multiplication and the tile of each."""
    shares = 1 if p.groups >= p.threads else p.threads
    by_columns = p.packs and p.columns >= shares * p.strip
    items = np.zeros((shares, p.groups), MULTIPLY)
    share, groups = np.arange(shares)[:, None], np.arange(p.groups)
    _describe(items, p)
    items["origin"] = groups * items["n_rows"]
    first = np.zeros_like(share)
    if by_columns:
        edges = np.minimum(np.arange(shares + 1) * -(-p.columns // p.strip) // shares * p.strip, p.columns)
        first, items["columns"] = edges[:-1, None], np.diff(edges)[:, None]
        items["parts"] = 1
    else:
        items["part"], items["parts"] = share, shares
    items["x_offset"] = groups * p.x.strides[0] + first // p.strip * items["x_strip"]
    items["y_offset"] = groups * p.y.strides[0] + first * p.y.strides[2]
    items["bias_offset"] = groups * p.shape[0] * 4
    flat = items.reshape(-1)
    return flat, np.arange(flat.size) * p.threads // max(1, flat.size)


def _describe(items: Array, p: Product) -> None:
    # What all items of a product share.
    block_rows, block_depth = p.block_shape[::-1] if p.transposed else p.block_shape
    items["offsets"], items["inner"], items["values"], items["x"], items["y"] = range(5)
    items["order"] = 5 if p.transposed and not p.reorders else -1
    items["bias"] = 5 + p.transposed if p.bias else -1
    items["n_rows"] = -(-p.shape[0] // block_rows)
    items["rows"], items["depth"] = p.shape
    items["columns"] = p.columns
    items["block_rows"], items["block_depth"] = block_rows, block_depth
    items["value_block"] = p.block_bytes
    items["value_row"], items["value_depth"] = _value_strides(p)
    items["x_row"], items["x_column"] = p.x.strides[1:]
    items["y_row"], items["y_column"] = p.y.strides[1:]
    items["x_format"], items["x_scale"] = FORMAT_NUMBERS[p.x.format], p.x.scale
    items["y_format"], items["y_scale"] = FORMAT_NUMBERS[p.y.format], p.y.scale
    items["strip"] = p.strip
    items["x_strip"] = p.shape[1] * p.x.strides[1] if p.x.panel else p.strip * p.x.strides[2]
    items["pack"], items["finish"] = p.packs, p.finishes
    items["stream"] = (not p.finishes and 4 * p.shape[0] * p.columns > _STREAM_BYTES
                       and p.y.strides[1] % _ALIGNMENT == 0)
    items["activation"] = ACTIVATIONS.index(p.activation)
    items["overflow"] = infinite_overflow(format_of(p.y.format))


def _value_strides(p: Product) -> tuple[int, int]:
    # From one row of op(W) to the next, and along the sum: one element, or one pair in the BF16 domain.
    line = p.block_shape[1] * p.size
    if p.tiles:
        return p.block_shape[0 if p.transposed else 1] * 2, 4
    if p.domain == "bfloat16":
        return (4, 2 * line) if p.transposed else (line, 4)
    return (p.size, line) if p.transposed else (line, p.size)
