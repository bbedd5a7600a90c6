"""Regions of images, each sampled to a grid of bins (ROIAlign), and the gradient of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..checks import as_shape, check_shape, finite, flag, whole
from ..config import settings
from ..errors import InvalidArgumentError, bad_argument
from ..formats import FP32, Array, Floats
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
from ..ops.one_kernel import OneKernel, from_to, shared
from ..popops import cast
from ..popops.sequence import SequenceBuilder
from ..program import Executable, Program, temporary, threads_for
from ..target import TargetLike
from .pooling.lower import Lies, fill_operand
from .pooling.request import Images, images

_SPEC, _ITEM, _REGION = (dtype_of(name) for name in ("pop_regions", "pop_regions_item", "pop_region"))
_SAMPLES, _SAMPLES_ITEM = dtype_of("pop_samples"), dtype_of("pop_samples_item")
_MOST_BINS, _MOST_SAMPLES, _LANES, _SLACK = 1 << 12, 1 << 24, 256, 16
_THREAD_ELEMENTS = 1 << 15


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
                f"{s.field[0]} x {s.field[1]}], {from_to([self.read.format], [self.made.format])}")


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


class _Asked(NamedTuple):
    """How regions are sampled; see pop_samples."""

    regions: int
    batch: int
    bins: tuple[int, int]
    extents: tuple[int, int]
    ratio: int
    scale: float
    less: float
    least: float
    drops: bool
    index_bytes: int
    index_signed: bool
    room: int = 0


@remembered()
def _lower_samples(asked: _Asked) -> Executable:
    """Return the program of where regions are sampled."""
    spec = np.zeros(1, _SAMPLES)
    for name, value in asked._asdict().items():
        spec[name] = value
    step = shared(select("pool", "samples", "any").kernel, _SAMPLES_ITEM, spec, 1, 1)
    return Program((step,), 6, 1, 0, tables=(spec,)).executable(1)


def _regions(rois: Any, batch_index: Any) -> tuple[Operand, Operand]:
    """Take boxes, and the sample of each."""
    boxes = array_operand("rois", rois, "float32, float16, bfloat16 or FP8 numbers [R, 4]")
    check_shape("rois", boxes, len(boxes.shape) == 2 and boxes.shape[1] == 4, "[R, 4]: x1, y1, x2, y2")
    index, count = whole_operand("batch_index", batch_index, "an array of whole numbers [R]"), boxes.shape[0]
    check_shape("batch_index", index, index.shape == (count,), f"shape ({count},), one for each of rois")
    return boxes.in_c_order(), index.in_c_order()


def _checked(boxes: Array, index: Array, batch: int) -> Floats:
    """Return boxes in float64, or raise."""
    with np.errstate(invalid="ignore"):
        numbers = boxes.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise bad_argument("rois", "numbers that are not finite", "finite ones")
    if index.size and (int(index.min()) < 0 or int(index.max()) >= batch):
        raise bad_argument("batch_index", f"{index.min()} to {index.max()}", f"0 to {batch - 1}")
    return numbers


def _most(boxes: Floats, asked: _Asked) -> tuple[int, int]:
    """Return the most rows of samples in a bin, and how many samples there are along axes of rows and columns in all,
    or raise."""
    rows, room = 1, 0
    for axis, n in enumerate(asked.bins):
        begin, end = (boxes[:, k - axis] * asked.scale - asked.less for k in (1, 3))
        size = np.maximum(end - begin, asked.least) / n
        most = asked.ratio or float(size.max(initial=0.0)) + 1
        if most * n * len(boxes) > _MOST_SAMPLES:
            raise bad_argument("rois", f"{len(boxes)} regions of {n} bins of up to {most:.3g} samples along an axis",
                               f"{_MOST_SAMPLES:,} samples in all")
        each = np.full(len(boxes), asked.ratio) if asked.ratio else np.ceil(size).astype(np.int64)
        room += n * int(each.sum())
        rows = rows if axis else max(rows, int(each.max(initial=1)))
    return rows, room


def _request(backward: bool, source: Operand, shape: Images, regions: tuple[Operand, Operand], bins: tuple[int, int],
             receiver: Receiver, how: dict[str, Any]) -> Request:
    operands, dtype = (source.in_c_order(), *regions), regions[1].array.dtype
    count = regions[0].shape[0]
    asked = _Asked(count, shape.batch, bins, (shape.field[0], shape.field[1]), index_bytes=dtype.itemsize,
                   index_signed=dtype.kind == "i", **how)
    binned = Images(count, shape.channels, bins, shape.channels_last)
    read, made = (binned, shape) if backward else (shape, binned)
    call = _Call(backward, count, shape, bins, 0, read.in_c_order(source.format, source.scale),
                 made.in_c_order(receiver.format, receiver.scale))
    most, room = _most(_checked(regions[0].array, regions[1].array, shape.batch), asked)
    program = _lower(replace(call, rows=1 << most.bit_length()), settings.num_threads)
    run = _known(asked._replace(room=room), program, operands, receiver) if asked.ratio else _counted(asked, call)
    return Request(run, (*operands, RESULT), receiver, program.told, checks=True)


def _known(asked: _Asked, program: OneKernel, operands: tuple[Operand, ...], receiver: Receiver) -> Callable[..., None]:
    """Return what samples regions of which it is known how many samples they have."""
    steps = SequenceBuilder(*(np.empty(x.shape, x.array.dtype) if x.gathered else x.array for x in operands),
                            receiver.array)
    numbers, boxes, index, result = steps.operands
    if boxes.dtype != np.float32:
        boxes = steps.call(cast, boxes, FP32)
    wrong = steps.room((1,), np.uint8)
    tables = steps.room((asked.regions,), _REGION), steps.room((asked.room, 2), np.int32), steps.room((asked.room, 2))
    steps.run(_lower_samples(asked), boxes, index, *tables, wrong)
    steps.end_where(wrong)
    steps.run(program.executable, numbers, *tables, result)

    def refused(_: Array, __: Array, boxes: Array, index: Array, *___: Array) -> Exception:
        try:
            _checked(boxes, index, asked.batch)
        except InvalidArgumentError as error:
            return error
        return _changed()

    return steps.made(refused)


def _counted(asked: _Asked, call: _Call) -> Callable[..., None]:
    """Return what samples regions once it has counted their samples."""
    def run(numbers: Array, boxes: Array, index: Array, result: Array) -> None:
        given = _checked(boxes, index, asked.batch)
        most, room = _most(given, asked)
        room = 1 << room.bit_length()
        tables = temporary((asked.regions,), _REGION), temporary((room, 2), np.int32), temporary((room, 2))
        wrong = np.zeros(1, np.uint8)
        _lower_samples(asked._replace(room=room))(given.astype(np.float32), index, *tables, wrong)
        if wrong[0]:
            raise _changed()
        program = _lower(replace(call, rows=1 << most.bit_length()), settings.num_threads)
        program.executable(numbers, *tables, result)

    return run


def _changed() -> Exception:
    return bad_argument("rois", "regions that changed meanwhile", "arrays that stay as they are")


def _images(name: str, shape: tuple[int, ...], layout: str) -> Images:
    made = images(name, shape, layout)
    check_shape(name, shape, len(made.field) == 2 and 0 not in made.field,
                "two dimensions of the field, of one element or more")
    return made


def _asked(aligned_height: Any, aligned_width: Any, sampling_ratio: Any, spatial_scale: Any, aligned: Any,
           drop_outside: Any) -> tuple[tuple[int, int], dict[str, Any]]:
    bins = whole("aligned_height", aligned_height, 1, _MOST_BINS), whole("aligned_width", aligned_width, 1, _MOST_BINS)
    middle = flag("aligned", aligned)
    return bins, {"ratio": whole("sampling_ratio", sampling_ratio, 0, _MOST_BINS),
                  "scale": finite("spatial_scale", spatial_scale, 0.0, 2.0**30), "less": 0.5 if middle else 0.0,
                  "least": 0.0 if middle else 1.0, "drops": flag("drop_outside", drop_outside)}


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
        element. A region that ends before it begins is one of no size then, else one of one element.
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
    regions = _regions(rois, batch_index)
    due = Images(regions[0].shape[0], shape.channels, bins, shape.channels_last).shape
    receiver = receive("out", out, due, out_dtype, result_format(source), contiguous=True)
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
    regions = _regions(rois, batch_index)
    due = regions[0].shape[0], shape.channels
    check_shape("grad", source, (given.batch, given.channels) == due, f"{due[0]} regions, {due[1]} channels")
    receiver = receive("out", out, shape.shape, out_dtype, result_format(source), contiguous=True)
    return _request(True, source, shape, regions, bins, receiver, how)
