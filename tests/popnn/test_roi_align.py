"""ROIAlign on this CPU: samples as the formula has them, edges, adaptive grids, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

from poplibs_py import popnn, testing
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.testing import assert_same_bits

RNG = np.random.default_rng(18)
X = RNG.normal(size=(2, 3, 7, 9)).astype(np.float32)
ROIS = np.float32([[0, 0, 4, 4], [1.5, 2.25, 8.5, 6.75], [-3, -2, 5, 12], [6, 5, 2, 1], [3, 3, 3, 3]])
INDEX = np.array([0, 1, 1, 0, 1])


def value(image, y, x):
    """An image between four elements."""
    h, w = image.shape
    if y > h or x > w:
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    low, left = int(y), int(x)
    below, right = min(low + 1, h - 1), min(left + 1, w - 1)
    top = image[low, left] * (1 - (x - left)) + image[low, right] * (x - left)
    bottom = image[below, left] * (1 - (x - left)) + image[below, right] * (x - left)
    return top * (1 - (y - low)) + bottom * (y - low)


def by_the_formula(x, bins, ratio, scale, aligned):
    """One number after another, in float64."""
    made = np.zeros((len(ROIS), x.shape[1], *bins))
    for r, (box, sample) in enumerate(zip(ROIS.astype(float) * scale - 0.5 * aligned, INDEX, strict=True)):
        sizes = [max(box[2 + d] - box[d], 0 if aligned else 1) / bins[1 - d] for d in (0, 1)]
        grid = [ratio or math.ceil(size) for size in sizes]
        for c, a, b in np.ndindex(made.shape[1:]):
            total = sum(value(x[sample, c].astype(float), box[1] + (a + (i + 0.5) / grid[1]) * sizes[1],
                              box[0] + (b + (j + 0.5) / grid[0]) * sizes[0])
                        for i in range(grid[1]) for j in range(grid[0]))
            made[r, c, a, b] = total / max(grid[0] * grid[1], 1)
    return made


@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_samples_are_those_of_the_formula(ratio, aligned):
    how = {"sampling_ratio": ratio, "aligned": aligned, "spatial_scale": 0.75}
    operands = X, ROIS, INDEX, 3, 2
    got = testing.check("popnn.roi_align", *operands, **how)
    radius = testing.bound("popnn.roi_align", *operands, **how).radius
    assert (np.abs(got - by_the_formula(X, (3, 2), ratio, 0.75, aligned)) <= radius + 2.0**-40).all()
    last = np.ascontiguousarray(np.moveaxis(X, 1, -1))
    assert_same_bits(np.moveaxis(popnn.roi_align(last, *operands[1:], layout="NHWC", **how), -1, 1), got)


def test_the_gradient_is_the_transpose():
    for layout in ("NCHW", "NHWC"):
        x = X if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(X, 1, -1))
        y = popnn.roi_align(x, ROIS, INDEX, 2, 3, layout=layout)
        grad = RNG.normal(size=y.shape).astype(np.float32)
        back = testing.check("popnn.roi_align_input_gradient", grad, ROIS, INDEX, x.shape, layout=layout)
        sizes = np.abs(y.astype(float) * grad).sum() + np.abs(x.astype(float) * back).sum()
        apart = abs((y.astype(float) * grad).sum() - (x.astype(float) * back).sum())
        assert apart <= 200 * 2.0**-24 * sizes


def test_edges_and_what_lies_outside():
    ones = np.ones((1, 1, 4, 4), np.float32)
    far = [[-9.0, -9.0, -5.0, -5.0], [9.0, 9.0, 12.0, 12.0]]
    assert popnn.roi_align(ones, far, [0, 0], 1, 1).ravel().tolist() == [1, 0]
    assert popnn.roi_align(ones, far, [0, 0], 1, 1, drop_outside=True).ravel().tolist() == [0, 0]
    edge = popnn.roi_align(ones, [[3.0, 3.0, 5.0, 5.0]], [0], 1, 1, sampling_ratio=1)
    assert edge.item() == 1  # the sample is at 4, the extent
    nothing = popnn.roi_align(ones, [[1.0, 1.0, 1.0, 1.0]], [0], 1, 1, aligned=True)
    assert nothing.item() == 0
    assert popnn.roi_align(ones, np.empty((0, 4), np.float32), [], 2, 2).shape == (0, 1, 2, 2)
    huge = ones * np.inf
    huge[..., 1:, 1:] = 2
    assert popnn.roi_align(huge, [[2.0, 2.0, 4.0, 4.0]], [0], 1, 1).item() == 2  # what has no weight does not count


@pytest.mark.parametrize(("changed", "name"), [
    ({"rois": ROIS[:, :3]}, "rois"), ({"rois": ROIS * np.nan}, "rois"), ({"rois": ROIS * 1e30}, "rois"),
    ({"batch_index": INDEX + 1}, "batch_index"), ({"batch_index": INDEX[:2]}, "batch_index"),
    ({"batch_index": INDEX / 2}, "batch_index"), ({"aligned_height": 0}, "aligned_height"),
    ({"sampling_ratio": -1}, "sampling_ratio"), ({"spatial_scale": math.nan}, "spatial_scale"),
    ({"aligned": 1}, "aligned"), ({"data": X[0]}, "data"), ({"layout": "HW"}, "layout"),
])  # fmt: skip
def test_wrong_arguments_are_named(changed, name):
    how = {"data": X, "rois": ROIS, "batch_index": INDEX, "aligned_height": 2, "aligned_width": 2} | changed
    with pytest.raises(PoplibsError, match=f"^{name}: got"):
        popnn.roi_align(**how)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_kept_calls_read_regions_anew(ratio, dtype):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 2, 6, 7)).astype(np.float32)
    boxes, index = np.zeros((4, 4), dtype), np.zeros(4, np.int16)
    out = np.zeros((4, 2, 2, 3), np.float32)
    before = popnn.roi_align.kept, popnn.roi_align_input_gradient.kept
    for scale in (3, 8, 1, 20):
        boxes[...], index[...] = rng.uniform(-2, scale, (4, 4)), rng.integers(0, 3, 4)
        how = {"sampling_ratio": ratio, "aligned": True}
        due = popnn.roi_align(x, boxes.tolist(), index, 2, 3, **how)  # lists are taken anew each time
        back = popnn.roi_align_input_gradient(due, boxes.tolist(), index, x.shape, **how)
        for _ in range(2):
            popnn.roi_align(x, boxes, index, 2, 3, out=out, **how)
            assert_same_bits(out, due)
            assert_same_bits(popnn.roi_align_input_gradient(out, boxes, index, x.shape, **how), back)
    assert (popnn.roi_align.kept, popnn.roi_align_input_gradient.kept) == (before[0] + 1, before[1] + 1)
    held = out.copy()
    for wrong, words in (((boxes, np.nan), "rois: got numbers that are not finite"),
                         ((index, 3), "batch_index: got 0 to 3; allowed: 0 to 2"),
                         ((index, -1), "batch_index: got -1 to 0; allowed: 0 to 2")):
        boxes[...], index[...] = 1, 0
        wrong[0][-1] = wrong[1]
        with pytest.raises(InvalidArgumentError, match=f"^{words}"):
            popnn.roi_align(x, boxes, index, 2, 3, out=out, **how)
        assert_same_bits(out, held)


def test_indices_of_any_type_say_whose_regions_are():
    x, boxes = np.arange(60, dtype=np.float32).reshape(3, 1, 4, 5), np.float32([[0, 0, 3, 3]] * 2)
    due = popnn.roi_align(x, boxes, [2, 0], 2, 2, sampling_ratio=2)
    for dtype in "bhilqBHILQ":
        for _ in range(3):
            assert_same_bits(popnn.roi_align(x, boxes, np.array([2, 0], dtype), 2, 2, sampling_ratio=2), due)
    index = np.array([2, 0], np.uint64)
    popnn.roi_align(x, boxes, index, 2, 2, sampling_ratio=2)
    index[1] = 2**63 + 1
    with pytest.raises(InvalidArgumentError, match="batch_index: got 2 to"):
        popnn.roi_align(x, boxes, index, 2, 2, sampling_ratio=2)
