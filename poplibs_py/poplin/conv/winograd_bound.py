"""How wrong a convolution by Winograd's transforms may be.

Each number passes the transform of the images or of the kernels, a sum of products over the channels, and the transform
of the results, each a sum of terms with known coefficients and a known count of roundings. So a result is off by at
most gamma_n times the same transforms with the magnitudes of all numbers and coefficients, where n is the count of all
roundings that a term may meet (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section
3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Floats
from ...formats.bounds import sum_ball
from ...target import Target
from ..gemm.options import GemmOptions
from ..tile_conv import ConvParams
from .params import Described, contiguous_call
from .winograd import Winograd, plan_winograd

IMAGES = {2: [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
           4: [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0],
               [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]]}
KERNELS = {2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
            4: [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
                [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]}
RESULTS = {2: [[1, 1, 1, 0], [0, 1, -1, -1]],
            4: [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]}
"""Matrices of the transforms: B' of images, G of kernels, A' of results, by the tile."""

ROUNDINGS = {2: 2 * (1 + 2 + 2), 4: 2 * (2 + 4 + 3)}
"""Roundings that a term meets in the three transforms, along columns and along rows; a coefficient's own is one."""

_KERNEL_SUMS = 16.0  # numbers of a kernel that add up before a coefficient makes them small, and more
_LOST = 8.0  # subnormals that transforming a kernel may lose


def winograd_plan(p: ConvParams, options: GemmOptions, target: Target) -> Winograd | None:
    """Return the plan of a convolution of FP32 arrays where transforms are asked for, if it takes them."""
    call = contiguous_call(p, Described(), FP32, FP32, FP32, None)
    plan = plan_winograd(call, options, target)
    return None if isinstance(plan, str) else plan


def winograd_radius(plan: Winograd, p: ConvParams, x: Floats, weights: Floats) -> Floats:
    """Return how far sums over a plan's tiles may be from the exact ones.

    Parameters
    ----------
    plan : Winograd
    p : ConvParams
        The convolution.
    x : numpy.ndarray [N, G * Ci, rows, columns]
        Images, as float64.
    weights : numpy.ndarray [G, Co, Ci, kernel...]
        Kernels, as float64.
    """
    t, least, most = plan.tile, FP32.smallest_subnormal, FP32.max
    into, of_kernels, out_of = (np.abs(np.array(m[t], float)) for m in (IMAGES, KERNELS, RESULTS))
    tiles, open_tiles = _tiles(plan, p, x)
    kernels = np.abs(_kernels(p, weights))
    open_kernels: Any = ~(kernels * _KERNEL_SUMS <= most).all((2, 3, 4))  # [G, Co]
    kernels = np.where(np.isfinite(kernels), kernels, 0.0)
    values = into @ tiles @ into.T  # [N, G, Ci, down, across, point, point]
    open_tiles |= (values > most).any((2, 5, 6))
    factors = of_kernels @ kernels @ of_kernels.T  # [G, Co, Ci, point, point]
    depth = p.in_channels
    magnitude = np.einsum("ngiabrc,goirc->ngoabrc", values, factors, optimize=True)
    lost = least * (_LOST * values.sum(2)[:, :, None] + 2 * depth)
    sums, carried = (out_of @ numbers @ out_of.T for numbers in np.broadcast_arrays(magnitude, lost))
    radius = sum_ball(np.zeros(sums.shape), sums, depth + ROUNDINGS[t], carried=carried).radius
    opened: Any = open_tiles[:, :, None] | open_kernels[None, :, :, None, None]
    radius = np.where(opened[..., None, None], np.inf, radius)
    n, g, o, down, across = radius.shape[:5]
    picture = radius.swapaxes(4, 5).reshape(n, g * o, down * t, across * t)
    return picture[..., : plan.dims[0].positions, : plan.dims[1].positions]


def _tiles(plan: Winograd, p: ConvParams, x: Floats) -> tuple[Floats, Any]:
    """Magnitudes of what each tile meets [N, G, Ci, down, across, side, side]; where there are others than numbers."""
    side = plan.tile + 2
    places: list[Any] = []
    for axis, dim, count in zip(p.axes, plan.dims, plan.tiles, strict=True):
        at = dim.first + plan.tile * np.arange(count)[:, None] + np.arange(side)
        places.append(np.where((at >= 0) & (at < dim.end), at + axis.input.truncation_lower, x.shape[2 + len(places)]))
    padded = np.pad(np.abs(x), ((0, 0), (0, 0), (0, 1), (0, 1)))  # a zero beyond the last
    met = padded[:, :, places[0][:, None, :, None], places[1][None, :, None, :]]
    met = met.reshape(x.shape[0], p.groups, p.in_channels, *met.shape[2:])
    return np.where(np.isfinite(met), met, 0.0), ~np.isfinite(met).all((2, 5, 6))


def _kernels(p: ConvParams, weights: Floats) -> Floats:
    """The 3x3 that a plan convolves with."""
    for d, axis in enumerate(p.axes):
        first = axis.weights.truncation_lower
        weights = np.moveaxis(np.moveaxis(weights, 3 + d, 0)[first : first + 3], 0, 3 + d)
        if axis.weights.flip != axis.input.flip:
            weights = np.flip(weights, 3 + d)
    return weights
