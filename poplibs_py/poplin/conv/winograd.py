"""Planning a 3x3 convolution on this CPU by Winograd's transforms: F(2x2, 3x3) or F(4x4, 3x3).

A tile of t x t results takes (t + 2)^2 products for each pair of channels in place of 9 t^2. Tiles of images and
kernels are transformed to numbers at so many points, a dense product is made at each, and its results are transformed
back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...formats import FP32
from ...kernels import select
from ...program import rounded, whole_lines
from ...target import Target
from ..gemm.field import FieldDim
from ..gemm.model import threads_of
from ..gemm.options import GemmOptions
from ..gemm.params import GemmParams, MatrixLayout, contiguous
from ..gemm.plan import Epilogue, GemmPlan, Scratch, on_lines
from ..gemm.search import plan_gemm
from ._boxes import halves
from ._side import LANES, ROOM
from .model import field_dim
from .params import ConvCall

TILES = (4, 2)
"""Results of a tile along each dimension."""

CHANNELS_AT_ONCE = 16  # input channels that kernels are turned for at once
_RUN = 32  # results of neighbouring tiles, along a row, that are written at once
_CHUNKS = (48, 24, 12, 6, 3, 1)  # tiles multiplied at once: whole pieces of kernels' rows
_WIDTH = 128  # columns multiplied at once
_CACHE_SHARE = 1.2  # of the second-level cache, that a thread's scratch fills: points pass one by one
_KERNEL_BYTES = 16 << 20  # of transformed kernels, which stay in the third-level cache and in the heap, without a limit
# Products that a core makes in the time that these take, for each tile: a number of the images, of the results; of the
# kernels; a number of the transformed kernels read again for each chunk, from that cache or from memory; a product of
# the direct way.
_IMAGES, _RESULTS, _KERNELS = {4: 320.0, 2: 110.0}, {4: 280.0, 2: 90.0}, {4: 500.0, 2: 250.0}
_READ, _READ_FAR, _DIRECT = 4.0, 20.0, 1.05


@dataclass(frozen=True)
class Winograd(Scratch):
    """How a convolution runs by Winograd's transforms.

    Attributes
    ----------
    dims : (FieldDim, FieldDim)
        Rows and columns of the images.
    kernel_strides : (int, int)
        Bytes from a row of a kernel to the next, from a column.
    offsets : (int, int)
        Bytes to the images' coordinates 0, to the kernels' first element.
    tile : int
        Results of a tile along each dimension, 2 or 4.
    product : GemmPlan
        The product of a chunk of tiles at one point.
    chunk : int
        Tiles multiplied at once.
    columns, slots : int
        Output channels of a group, and groups, whose kernels are transformed at once.
    threads : int
    memory_limit : int or None
        Temporary bytes for each thread.
    """

    dims: tuple[FieldDim, FieldDim]
    kernel_strides: tuple[int, int]
    offsets: tuple[int, int]
    tile: int
    product: GemmPlan
    chunk: int
    columns: int
    slots: int
    threads: int
    memory_limit: int | None = None

    @property
    def method(self) -> str:
        """What it is, in words."""
        return "Winograd's transforms, and a product at each of their points"

    @property
    def products(self) -> tuple[GemmPlan]:
        """What multiplies."""
        return (self.product,)

    @property
    def points(self) -> int:
        """Points of the transforms."""
        return (self.tile + 2) ** 2

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles of an image."""
        down, across = (-(-dim.positions // self.tile) for dim in self.dims)
        return down, across

    @property
    def run(self) -> int:
        """Tiles side by side that are read, or written, at once."""
        return min(_RUN // self.tile, self.tiles[1], self.chunk)

    @property
    def width(self) -> int:
        """Columns multiplied at once."""
        return self.product.params.n

    @property
    def channels(self) -> int:
        """Input channels of a group in scratch."""
        return rounded(self.product.params.k, LANES)

    @property
    def pitch(self) -> int:
        """Bytes of an element of the images in scratch."""
        return 4 * self.channels + 64

    @property
    def points_next(self) -> int:
        """Bytes from a chunk's numbers at a point to those at the next."""
        return self.chunk * self.product.params.a.row + 64

    @property
    def products_next(self) -> int:
        """Bytes from a chunk's products at a point to those at the next."""
        return self.chunk * self.product.params.out.row + 64

    @property
    def panel_width(self) -> int:
        """Columns of a panel of transformed kernels."""
        return self.product.kernel.block[1]

    @property
    def panel(self) -> int:
        """Bytes of a panel."""
        return 4 * self.product.params.k * self.panel_width

    @property
    def kernels_next(self) -> int:
        """Bytes from a point's panels to the next one's."""
        return -(-self.columns // self.panel_width) * self.panel + 64

    @property
    def slot_bytes(self) -> int:
        """Bytes of the transformed kernels of one group."""
        return self.points * self.kernels_next

    @property
    def workspace_bytes(self) -> int:
        """Bytes of transformed kernels, which all threads see."""
        return self.slots * self.slot_bytes

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's scratch, in order."""
        side, run = self.tile + 2, self.run
        strip = max(side * (run * self.tile + 2) * self.pitch, self.tile**2 * run * self.product.params.out.row)
        return on_lines(
            product=self.product.scratch_bytes, strip=strip, points=self.points * self.points_next,
            products=self.points * self.products_next, bias=4 * rounded(self.columns, LANES), room=ROOM + 128)

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        turned = (576 + 36) * CHANNELS_AT_ONCE + 36 * LANES
        return max(super().scratch_bytes, whole_lines(turned))

    def cost(self, call: ConvCall, prepared: bool = False) -> float:
        """Products that a core makes in the time that it takes, or so."""
        p, t = call.params, self.tile
        tiles, inner, outer = p.batch * math.prod(self.tiles), self.channels, rounded(p.out_channels, LANES)
        again = -(-p.out_channels // self.columns)
        read = (_READ if self.workspace_bytes <= _KERNEL_BYTES else _READ_FAR) / self.chunk
        each = self.points * inner * outer * (1 + read) + _IMAGES[t] * inner * again + _RESULTS[t] * outer
        return p.groups * (tiles * each + (0 if prepared else _KERNELS[t] * inner * outer))

    def decisions(self, call: ConvCall, prepared: bool, inner: Mapping[str, str]) -> dict[str, str]:
        """Return what was decided, given what was for the product at a point."""
        at_once = "all" if self.columns >= call.params.out_channels else str(self.columns)
        kernels = f"kernels of {at_once} output channels transformed at once"
        if prepared:
            kernels = "kernels come transformed"
        shared = 0 if prepared else self.workspace_bytes
        return {"winograd": self.words, "kernel": inner["kernel"],
                "blocks": f"{self.chunk} tiles, {self.width} columns; {kernels}",
                "threads": str(self.threads),
                "scratch": f"{self.scratch_bytes:,} bytes a thread, {shared:,} of all"}

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        t, side = self.tile, self.tile + 2
        return (f"F({t}x{t}, 3x3): {side * side} products for {t * t} results in place of {9 * t * t}; "
                f"{math.prod(self.tiles)} tiles of an image")


def plan_winograd(call: ConvCall, options: GemmOptions, target: Target, prepared: bool = False) -> Winograd | str:
    """Plan a convolution so, with the cheaper tile; else say why not, in words. Kernels may come transformed."""
    p = call.params
    formats = call.x.format, call.weights.format
    if formats != (FP32, FP32):
        return f"operands are {formats[0]} and {formats[1]}, not float32"
    if options.partials_type != "float":
        return "partials are half"
    dims, x_offset, w_offset, strides = [], 0, call.weights.offset, []
    for axis, x, w, out in zip(p.axes, call.x.field, call.weights.field, call.out.field, strict=True):
        dim, offset = field_dim(axis, x, out)
        x_offset += offset
        w_offset += axis.weights.truncation_lower * w
        if dim.tap_step == -1:  # the taps in reverse
            w_offset += (dim.taps - 1) * w
            dim, w = dim._replace(first=dim.first - dim.taps + 1, tap_step=1), -w
        dims.append(dim)
        strides.append(w)
    why = _unfit(dims)
    if why or not p.batch * p.groups * p.in_channels * p.out_channels * math.prod(dim.positions for dim in dims):
        return why or "the result or the depth is empty"
    (rows, columns), (row, column) = dims, strides
    place = (rows, columns), (row, column), (call.x.offset + x_offset, w_offset)
    found = [plan for tile in TILES for plan in _plans(call, options, target, *place, tile, prepared)]
    return _best(found, call, options, prepared)


def _unfit(dims: list[FieldDim]) -> str:
    """Why a convolution is none of a 3x3 kernel over a plane at a stride of one; empty if it is."""
    if len(dims) != 2:
        return f"there are {len(dims)} field dimensions, not 2"
    if any(dim.taps != 3 for dim in dims):
        return f"the kernel is {dims[0].taps}x{dims[1].taps}, not 3x3"
    if any(dim.step != 1 for dim in dims):
        return "there is a stride, or the input is flipped"
    if any(dim.tap_step != 1 or dim.dilation != 1 for dim in dims):
        return "kernel or input are dilated"
    if any(dim.first_valid > 0 or dim.end_valid < dim.positions for dim in dims):
        return "the output is padded"
    return ""


def _best(found: list[Winograd], call: ConvCall, options: GemmOptions, prepared: bool) -> Winograd | str:
    p, limit = call.params, found[0].memory_limit
    positions = math.prod(dim.positions for dim in found[0].dims)
    direct = _DIRECT * p.batch * p.groups * p.in_channels * p.out_channels * 9 * positions
    cheap = [plan for plan in found if plan.cost(call, prepared) < direct]
    if not cheap:
        return "transforms would take longer than they save"

    def taken(plan: Winograd) -> int:
        sharing = 1 if options.reproducible else plan.threads  # what is planned then depends on no thread
        return plan.scratch_bytes + (0 if prepared else -(-plan.workspace_bytes // sharing))

    fitting = [plan for plan in cheap if limit is None or taken(plan) <= limit]
    if not fitting:
        return f"it takes {min(map(taken, cheap)):,} bytes a thread at least"
    return min(fitting, key=lambda plan: plan.cost(call, prepared))


def _plans(call: ConvCall, options: GemmOptions, target: Target, dims: tuple[FieldDim, FieldDim],
           kernel_strides: tuple[int, int], offsets: tuple[int, int], tile: int, prepared: bool) -> Iterator[Winograd]:
    """Plans with a tile: several chunks, and shares of the kernels that are transformed at once."""
    p, limit = call.params, options.memory.limit(target)
    threads = threads_of(p.flops(), target)
    tiles = p.batch * math.prod(-(-dim.positions // tile) for dim in dims)
    unlimited, core = replace(options, available_memory_proportion=None), target.replace(tiles=1)
    fits = _CACHE_SHARE * target.bytes_per_tile
    for number, chunk in enumerate(_CHUNKS):
        if chunk >= 2 * tiles:
            continue
        product = _product(p.in_channels, p.out_channels, min(chunk, tiles), unlimited, core)
        plan = Winograd(dims, kernel_strides, offsets, tile, product, product.params.m, p.out_channels, p.groups,
                        threads, limit)
        last = number + 1 == len(_CHUNKS) or chunk == 6  # smaller ones only to keep to a limit
        if limit is None and plan.scratch_bytes > fits and not last:
            continue
        if prepared:
            yield plan
        elif limit is None:
            yield next((part for part in _parts(plan) if part.workspace_bytes <= _KERNEL_BYTES), plan)
        else:
            yield from _parts(plan)
        if limit is None:
            return


def _parts(plan: Winograd) -> Iterator[Winograd]:
    """The plan with kernels of all groups transformed at once, of half of them and so on, then of some channels."""
    yield from (replace(plan, slots=slots) for slots in halves(plan.slots))
    _, *some = halves(-(-plan.columns // plan.panel_width))
    yield from (replace(plan, slots=1, columns=n * plan.panel_width) for n in some)


def _product(depth: int, columns: int, chunk: int, options: GemmOptions, core: Target) -> GemmPlan:
    """The product at a point, of numbers in scratch with panels of kernels."""

    def stated(width: int) -> GemmParams:
        a = MatrixLayout(FP32, 4 * rounded(depth, LANES) + 64, 4)
        out = MatrixLayout(FP32, 4 * rounded(width, LANES) + 64, 4)
        return GemmParams(chunk, width, depth, a, contiguous(FP32, depth, width), out)

    draft = stated(min(columns, _WIDTH))
    packed = plan_gemm(draft, options, Epilogue(), core, packing=True)
    panel = packed.kernel.block[1]
    if draft.n < columns:
        draft = stated(max(panel, draft.n // panel * panel))
    return plan_gemm(draft, options, Epilogue(), core, packed)


def transform(kind: str, tile: int) -> int:
    """Address of the kernel that transforms images, weights or results."""
    return select("conv", f"winograd_{kind}_{tile}", "float32").kernel.address
