"""ROIAlign on this CPU: samples as the formula has them, edges, adaptive grids, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

from poplibs_py import popnn, testing
from poplibs_py.errors import PoplibsError
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
