"""Regions of images, each sampled to a grid of bins (ROIAlign), and the gradient of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..config import settings
from ..errors import as_shape, bad_argument, check_shape, finite, flag, whole
from ..formats import Array
from ..kernels import select
from ..kernels.records import dtype_of
from ..log import tell
from ..memo import remembered
from ..ops import (
    RESULT,
    Operand,
    Receiver,
    Request,
    array_operand,
    one_scale_operand,
    op,
    receive,
    result_format,
    whole_operand,
)
from ..ops.one_kernel import OneKernel, shared
from ..program import Program, threads_for
from ..target import TargetLike
from .pooling.lower import Lies, fill_operand
from .pooling.request import Images, images

_SPEC, _ITEM, _REGION = (dtype_of(name) for name in ("pop_regions", "pop_regions_item", "pop_region"))
_MOST_BINS, _MOST_SAMPLES, _LANES, _SLACK = 1 << 12, 1 << 24, 256, 16
_THREAD_ELEMENTS = 1 << 15


class Samples(NamedTuple):
    """Where regions are sampled along one axis, region after region, bin after bin.

    Attributes
    ----------
    first, each : numpy.ndarray of int64 [R]
        Each region's first sample, and samples of a bin.
    places : numpy.ndarray of int32 [S, 2]
        The elements before and after a sample.
    weights : numpy.ndarray of float64 [S, 2]
        Theirs; 0 for a sample that does not count.
    """

    first: Array
    each: Array
    places: Array
    weights: Array


def samples_of(low: Array, high: Array, bins: int, extent: int, *, sampling_ratio: int, aligned: bool,
               spatial_scale: float, drop_outside: bool) -> Samples:
    """Return where regions from `low` to `high` are sampled along an axis.

    Parameters
    ----------
    low, high : numpy.ndarray of float64 [R]
        Where regions begin and end.
    bins, extent : int
        Of a region, and elements of the axis.
    sampling_ratio, aligned, spatial_scale, drop_outside
        As `roi_align` takes them.
    """
    begin, end = (edge * spatial_scale - (0.5 if aligned else 0.0) for edge in (low, high))
    size = np.maximum(end - begin, 0.0 if aligned else 1.0) / bins
    most = sampling_ratio or float(size.max(initial=0.0)) + 1
    if most * bins * size.size > _MOST_SAMPLES:
        raise bad_argument("rois", f"{size.size} regions of {bins} bins of up to {most:.3g} samples along an axis",
                           f"{_MOST_SAMPLES:,} samples in all")
    each = np.full(size.shape, sampling_ratio) if sampling_ratio else np.ceil(size).astype(np.int64)
    counts = each * bins
    first = np.cumsum(counts) - counts
    region = np.repeat(np.arange(len(size)), counts)
    number = np.arange(len(region)) - first[region]
    own = np.maximum(each, 1)[region]
    at = begin[region] + (number // own + (number % own + 0.5) / own) * size[region]
    there = (at <= extent) & ((at >= -1) | (not drop_outside))
    at = np.clip(at, 0, max(0, extent - 1))
    before = np.floor(at).astype(np.int32)
    part = at - before
    weights = np.stack([1 - part, part], 1) * there[:, None]
    places = np.stack([before, np.minimum(before + 1, max(0, extent - 1))], 1).astype(np.int32)
    return Samples(first.astype(np.int64), each.astype(np.int64), places, weights)


@dataclass(frozen=True)
class _Call:
    """What is sampled, and how operands lie."""

    backward: bool
    regions: int
    shape: Images
    bins: tuple[int, int]
    rows: int
    read: Lies
    made: Lies

    def __str__(self) -> str:
        s = self.shape
        words = "gradient of " if self.backward else ""
        return (f"{words}{self.regions} regions to {self.bins[0]} x {self.bins[1]} of [{s.batch}, {s.channels}, "
                f"{s.field[0]} x {s.field[1]}]")


@remembered(weight=4)
def _lower(call: _Call, threads: int) -> OneKernel:
    spec, s = np.zeros(1, _SPEC), call.shape
    height, width = s.field
    lanes = 1
    if s.by_channel:
        lanes = min(s.channels, _SLACK if call.backward else _LANES)
    groups = -(-s.channels // lanes)
    spec["all_channels"], spec["lanes"], spec["groups"] = s.channels, lanes, groups
    spec["height"], spec["width"], spec["regions"] = height, width, call.regions
    spec["rows"], spec["columns"] = call.bins
    spec["row_limit"] = most = max(1, 2 * call.rows)
    fill_operand(spec["read"][0], 0, call.read, False)
    fill_operand(spec["made"][0], 4, call.made, True)
    units = (s.batch if call.backward else call.regions) * groups
    work = call.regions * s.channels * call.bins[0] * (width + call.bins[1])
    threads = threads_for(work, _THREAD_ELEMENTS, min(threads, max(1, units)))
    selection = select("pool", "regions_gradient" if call.backward else "regions", "any")
    steps = (shared(selection.kernel, _ITEM, spec, units, threads),)
    floats = most + (2 * width + call.bins[1]) * lanes + 4 * _SLACK + (height * width * lanes if call.backward else 0)
    program = Program(steps, 5, threads, 8 * most + 4 * floats, tables=(spec,))
    made = OneKernel(call, program.executable(threads), selection, (_lower, (call, threads)),
                     {"lanes": "channels" if s.by_channel else "positions"})
    tell("popnn", made)
    return made


def _regions(rois: Any, batch_index: Any, batch: int) -> tuple[Array, Array]:
    """Boxes in float64, and the sample of each."""
    boxes = array_operand("rois", rois, "float32, float16, bfloat16 or FP8 numbers [R, 4]").array
    check_shape("rois", boxes, boxes.ndim == 2 and boxes.shape[1] == 4, "[R, 4]: x1, y1, x2, y2")
    with np.errstate(invalid="ignore"):
        numbers = boxes.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise bad_argument("rois", "numbers that are not finite", "finite ones")
    index = whole_operand("batch_index", batch_index, "an array of whole numbers [R]").array
    check_shape("batch_index", index, index.shape == (len(numbers),), f"shape ({len(numbers)},), one for each of rois")
    if index.size and (int(index.min()) < 0 or int(index.max()) >= batch):
        raise bad_argument("batch_index", f"{index.min()} to {index.max()}", f"0 to {batch - 1}")
    return numbers, index.astype(np.int64)


def _tables(boxes: Array, index: Array, shape: Images, bins: tuple[int, int], how: dict[str, Any]) -> tuple[Array, ...]:
    """What a program reads of this call's regions: heads, places, weights."""
    rows, columns = (samples_of(boxes[:, axis], boxes[:, axis + 2], bins[d], shape.field[d], **how)
                     for d, axis in enumerate((1, 0)))
    heads = np.zeros(len(boxes), _REGION)
    heads["sample"] = index
    heads["first_row"], heads["rows"] = rows.first, rows.each
    heads["first_column"], heads["columns"] = columns.first + len(rows.places), columns.each
    sampled = np.flatnonzero(columns.each)
    if sampled.size:
        heads["begin"][sampled] = np.minimum.reduceat(columns.places[:, 0], columns.first[sampled])
        heads["end"][sampled] = np.maximum.reduceat(columns.places[:, 1], columns.first[sampled]) + 1
    places, weights = (np.concatenate(pair) for pair in zip(rows[2:], columns[2:], strict=True))
    return heads, places, weights.astype(np.float32)


def _request(backward: bool, source: Operand, shape: Images, regions: tuple[Array, Array], bins: tuple[int, int],
             receiver: Receiver, how: dict[str, Any]) -> Request:
    tables = _tables(*regions, shape, bins, how)
    heads = tables[0]
    binned = Images(len(heads), shape.channels, bins, shape.channels_last)
    read, made = (binned, shape) if backward else (shape, binned)
    most = 1 << int(heads["rows"].max(initial=1)).bit_length()
    call = _Call(backward, len(heads), shape, bins, most, read.in_c_order(source.format, source.scale),
                 made.in_c_order(receiver.format, receiver.scale))
    program = _lower(call, settings.num_threads)
    return Request(program.executable, (source.in_c_order(), *tables, RESULT), receiver,
                   program.told, keep=False)


def _images(name: str, shape: tuple[int, ...], layout: str) -> Images:
    made = images(name, shape, layout)
    check_shape(name, shape, len(made.field) == 2 and 0 not in made.field,
                "two dimensions of the field, of one element or more")
    return made


def _asked(aligned_height: Any, aligned_width: Any, sampling_ratio: Any, spatial_scale: Any, aligned: Any,
           drop_outside: Any) -> tuple[tuple[int, int], dict[str, Any]]:
    bins = whole("aligned_height", aligned_height, 1, _MOST_BINS), whole("aligned_width", aligned_width, 1, _MOST_BINS)
    return bins, {"sampling_ratio": whole("sampling_ratio", sampling_ratio, 0, _MOST_BINS),
                  "spatial_scale": finite("spatial_scale", spatial_scale, 0.0, 2.0**30),
                  "aligned": flag("aligned", aligned), "drop_outside": flag("drop_outside", drop_outside)}


@op("popnn::experimental::roiAlignFwd", bound="popnn.regions_bound", draws="testing.pool_calls", lacks="by places")
def roi_align(data: Any, rois: Any, batch_index: Any, aligned_height: int, aligned_width: int, *,
              sampling_ratio: int = 0, spatial_scale: float = 1.0, aligned: bool = False, drop_outside: bool = False,
              layout: str = "NCHW", out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Sample regions of images to grids of bins (``popnn::experimental::roiAlignFwd``).

    Parameters
    ----------
    data : array_like or QuarterArray [N, C, H, W]
        float32, float16, bfloat16 or FP8, of any strides. Lists become float32.
    rois : array_like [R, 4]
        Regions: x1, y1, x2, y2, finite, before they are scaled.
    batch_index : array of integers [R]
        Which image each is of.
    aligned_height, aligned_width : int
        Bins of a region.
    sampling_ratio : int, optional
        Samples of a bin along each axis; by default as many as it has elements, rounded up (PopLibs has no such).
    spatial_scale : float, optional
        What coordinates are multiplied by.
    aligned : bool, optional
        Whether elements' centres are at halves: coordinates are less by 1/2 then, and regions may be smaller than one
        element.
    drop_outside : bool, optional
        Whether a sample of which a coordinate is below -1 counts as 0, as in torchvision; by default, as in PopLibs, it
        is that of the edge.
    layout : {"NCHW", "NHWC"}, optional
        Where the channels are.
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap `data`.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, or that of `data`, or float16 where that is FP8.

    Returns
    -------
    numpy.ndarray [R, C, aligned_height, aligned_width], or [R, aligned_height, aligned_width, C]
        Means of a bin's samples, each interpolated between four elements; 0 for samples beyond H or W.

    Notes
    -----
    Coordinates are float64, weights are rounded to FP32; sums are FP32, of rows first, then of columns, and the result
    is rounded once. At a coordinate of H or W PopLibs reads past the image: here it is the last element.

    Examples
    --------
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> popnn.roi_align(image, [[0.0, 0.0, 2.0, 2.0]], [0], 2, 2, aligned=True)[0, 0]
    array([[0., 1.],
           [4., 5.]], dtype=float32)
    """
    source = one_scale_operand("data", data)
    shape = _images("data", source.shape, layout)
    bins, how = _asked(aligned_height, aligned_width, sampling_ratio, spatial_scale, aligned, drop_outside)
    regions = _regions(rois, batch_index, shape.batch)
    due = Images(len(regions[0]), shape.channels, bins, shape.channels_last).shape
    receiver = receive("out", out, due, out_dtype, result_format(source), (source,), contiguous=True)
    return _request(False, source, shape, regions, bins, receiver, how)


@op("popnn::experimental::roiAlignInputGradient", bound="popnn.regions_bound", draws="testing.pool_calls",
    lacks="by places")
def roi_align_input_gradient(grad: Any, rois: Any, batch_index: Any, x_shape: Sequence[int], *,
                             sampling_ratio: int = 0, spatial_scale: float = 1.0, aligned: bool = False,
                             drop_outside: bool = False, layout: str = "NCHW", out: Any = None,
                             out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return the gradient of the images that `roi_align` sampled (``popnn::experimental::roiAlignInputGradient``).

    Parameters
    ----------
    grad : array_like or QuarterArray [R, C, aligned_height, aligned_width]
        The gradient of the result; with ``layout="NHWC"`` channels are last.
    rois, batch_index, sampling_ratio, spatial_scale, aligned, drop_outside, layout
        As `roi_align` has them.
    x_shape : sequence of int
        The images' shape.
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap `grad`.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, or that of `grad`, or float16 where that is FP8.

    Returns
    -------
    numpy.ndarray of the shape `x_shape`

    Notes
    -----
    FP32, regions in ascending order, rounded once: the same bits for any number of threads.

    Examples
    --------
    >>> grad = np.full((1, 1, 1, 1), 4, np.float32)
    >>> popnn.roi_align_input_gradient(grad, [[0.0, 0.0, 2.0, 2.0]], [0], (1, 1, 2, 2), aligned=True)[0, 0]
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    source = one_scale_operand("grad", grad)
    shape = _images("x_shape", as_shape("x_shape", x_shape), layout)
    given = _images("grad", source.shape, layout)
    bins, how = _asked(given.field[0], given.field[1], sampling_ratio, spatial_scale, aligned, drop_outside)
    regions = _regions(rois, batch_index, shape.batch)
    due = len(regions[0]), shape.channels
    check_shape("grad", source, (given.batch, given.channels) == due, f"{due[0]} regions, {due[1]} channels")
    receiver = receive("out", out, shape.shape, out_dtype, result_format(source), (source,), contiguous=True)
    return _request(True, source, shape, regions, bins, receiver, how)
