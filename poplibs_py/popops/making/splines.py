"""B-splines: `spline_basis`, `spline_weighting`; and `normalise_image`."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_shape, finite, whole
from ...errors import bad_argument, bad_type
from ...formats import BF16, FP16, FP32, Array
from ...ops import RESULT, Operand, Request, array_operand, op, place_of, receive, result_format, whole_operand
from ...ops import argument as array_argument
from ...ops.numpy_ops import told
from ...ops.parts import Part, results
from ...target import TargetLike
from ..elementwise.cast import cast
from ..maps.api import map as fused
from ..sequence import SequenceBuilder
from .made import coded, write
from .modelled import basis_plan, image_plan, weighting_plan

_FLOATS = "float32 or float16 numbers"
_MOST_WEIGHTS = (1 << 31) - 1


class SplineBasis(NamedTuple):
    """What `spline_basis` returns."""

    basis: Any
    weight_index: Any


@op("popops::normaliseImage", bound="popops.making.bound", draws="testing.encoding_calls")
def normalise_image(x: Any, offsets: Any, scales: Any, in_scale: float = 1.0, *, out: Any = None,
                    target: TargetLike = None) -> Any:
    """Normalise pixels of three channels, and add a channel of zeros (``popops::normaliseImage``).

    Parameters
    ----------
    x : array_like [..., 3]
        uint8, float16 or float32 numbers; lists become float32.
    offsets, scales : array_like [3]
        Of each channel, in any format; lists become float32.
    in_scale : float, optional
        What all are multiplied by first, finite and not zero.
    out : array [..., 4], optional
        Where the result goes.

    Returns
    -------
    numpy.ndarray [..., 4]
        ``(x * in_scale - offsets) * scales``, then a zero: float16 for uint8, else of the dtype of `x`.

    Notes
    -----
    In FP32, each of the three steps rounded, and the result once more to float16. PopLibs computes in the result's
    type.

    Examples
    --------
    >>> popops.normalise_image([[2.0, 4.0, 6.0]], [1.0, 2.0, 3.0], [0.5, 1.0, 2.0])
    array([[0.5, 2. , 6. , 0. ]], dtype=float32)
    """
    source = array_argument("x", x, "uint8, float16 or float32 numbers", np.float32)
    dtype = source.array.dtype
    if dtype not in (np.uint8, np.float16, np.float32) or not dtype.isnative:
        raise bad_type("x", f"dtype {dtype}", "uint8, float16 or float32 numbers")
    check_shape("x", source, source.shape and source.shape[-1] == 3, "[..., 3]: three channels")
    constants = [array_operand(name, value) for name, value in (("offsets", offsets), ("scales", scales))]
    for name, constant in zip(("offsets", "scales"), constants, strict=True):
        check_shape(name, constant, constant.shape == (3,), "[3]: a number for each channel")
    factor = finite("in_scale", in_scale, -FP32.max, FP32.max)
    if factor == 0:
        raise bad_argument("in_scale", in_scale, "a number other than zero that float32 holds")
    shape = (*source.shape[:-1], 4)
    form = FP32 if dtype == np.float32 else FP16
    receiver = receive("out", out, shape, None, form, contiguous=True, own="the result's")
    pixels = prod(source.shape[:-1])
    placed = place_of(normalise_image, target, lambda machine: image_plan(machine, dtype, pixels))

    steps = _normalising(source.array, constants[0].array, constants[1].array, receiver.array, factor)
    return Request(steps.made(), (source, *constants, RESULT), receiver,
                   steps.told("normalise_image", source.shape, dtype), placed=placed)


def _normalising(x: Array, offsets: Array, scales: Array, result: Array, factor: float) -> SequenceBuilder:
    """Return what normalises pixels that lie as an array's do."""
    steps = SequenceBuilder(x, offsets, scales, result)
    *read, made = steps.operands
    pixels, less, times = (a if a.dtype == np.float32 else steps.call(cast, a, FP32) for a in read)
    for c in range(3):
        steps.call(fused, lambda p, o, s: (p * factor - o) * s, pixels[..., c], less[c, ...], times[c, ...],
                   out=made[..., c])
    steps.copy(np.broadcast_to(np.zeros((), made.dtype), made.shape[:-1]), made[..., 3])
    return steps


@op("popops::splineBasis", bound="popops.making.bound", draws="testing.encoding_calls", written=None)
def spline_basis(pseudo: Any, kernel_size: Any, is_open: Any, degree: int = 1, *, out: Any = None,
                 target: TargetLike = None) -> Any:
    """Values of the B-splines that are not zero at points, and where their weights are (``popops::splineBasis``).

    Parameters
    ----------
    pseudo : array_like [e, d]
        float32 or float16 coordinates of points, as a rule from 0 to 1; lists become float32.
    kernel_size : array_like of int [d]
        Weights along each dimension, one or more.
    is_open : array_like of int or bool [d]
        Whether splines are open along each dimension, else closed.
    degree : int, optional
        1, 2 or 3.
    out : tuple of two arrays, optional
        Where the results go.

    Returns
    -------
    SplineBasis
        ``basis`` [e, s] in the format of `pseudo`, with ``s = (degree + 1)**d``, the first dimension fastest, and
        ``weight_index`` [e, s] of int32, likewise. NaN, and weight 0 along a dimension, where a coordinate is not
        finite.

    Notes
    -----
    ``v = pseudo * (kernel_size - degree * is_open)`` is rounded to FP32; its whole part says which weights, modulo
    `kernel_size`, what is left where between them. Polynomials and their products are computed in float64 and rounded
    once.

    Examples
    --------
    >>> popops.spline_basis([[0.25]], [5], [True])
    SplineBasis(basis=array([[1., 0.]], dtype=float32), weight_index=array([[1, 2]], dtype=int32))
    """
    points = _points(pseudo)
    count, dimensions = points.shape
    sizes, opens = (_vector(*given, dimensions) for given in (("kernel_size", kernel_size), ("is_open", is_open)))
    steps = whole("degree", degree, 1, 3) + 1
    if steps**dimensions > 1 << 20:
        raise bad_argument("pseudo", f"{dimensions} dimensions", f"as many as give at most {1 << 20} values at a point")
    shape = (count, steps**dimensions)
    parts = (Part(shape, form, strided=True) for form in (points.format, np.dtype(np.int32)))
    made = results(out, tuple(parts), SplineBasis)
    placed = place_of(spline_basis, target, lambda machine: basis_plan(
        machine, points.format, count, dimensions, shape[1], degree))

    form = points.format

    def run(coordinates: Array, extents: Array, ends: Array, basis: Array, index: Array) -> None:
        asked = _sizes(extents), [whole("is_open", int(end), 0, 1) for end in ends.tolist()]
        with np.errstate(all="ignore"):
            product, place = evaluate(coordinates, *asked, steps - 1)
            write(basis, coded(product, form))
        index[...] = place

    return Request.to(made, run, (points, sizes, opens), told("spline_basis", points.shape, form),
                      placed=placed, checks=True)


def evaluate(coordinates: Array, sizes: list[int], opens: list[int], degree: int) -> tuple[Array, Array]:
    """Return values of splines in float64, and places of their weights."""
    product, place, radix = np.ones((len(coordinates), 1)), np.zeros((len(coordinates), 1), np.int64), 1
    for d, (size, is_open) in enumerate(zip(sizes, opens, strict=True)):
        v = (coordinates[:, d].astype(np.float32) * np.float32(size - degree * is_open)).astype(np.float64)
        low = np.floor(v)
        values = np.stack(_polynomials(v - low, degree), -1)
        first = np.where(np.isfinite(v), np.mod(low, size), 0.0).astype(np.int64)
        nodes = (first[:, None] + np.arange(degree + 1)) % size
        product = (values[:, :, None] * product[:, None, :]).reshape(len(v), (degree + 1) ** (d + 1))
        place = (nodes[:, :, None] * radix + place[:, None, :]).reshape(product.shape)
        radix *= size
    return product, place


def _polynomials(v: Array, degree: int) -> tuple[Array, ...]:
    if degree == 1:
        return 1 - v, v
    if degree == 2:
        return 0.5 * v * v - v + 0.5, -v * v + v + 0.5, 0.5 * v * v
    w = 1 - v
    return (w * w * w / 6, (3 * v * v * v - 6 * v * v + 4) / 6, (-3 * v * v * v + 3 * v * v + 3 * v + 1) / 6,
            v * v * v / 6)


def _points(pseudo: Any) -> Operand:
    points = array_operand("pseudo", pseudo, _FLOATS)
    if points.format not in (FP32, FP16):
        raise bad_type("pseudo", f"dtype {points.array.dtype}", _FLOATS)
    check_shape("pseudo", points, len(points.shape) == 2 and points.shape[1], "[e, d], d one or more")
    return points


def _vector(name: str, value: Any, count: int) -> Operand:
    """Take whole numbers, one for each dimension."""
    held = array_argument(name, value, f"an array of {count} whole numbers")
    if held.array.dtype.kind not in "biu" or held.shape != (count,):
        raise bad_argument(name, f"{held.array.dtype} of shape {held.shape}", f"{count} whole numbers")
    return held


def _sizes(given: Array) -> list[int]:
    """Weights along each dimension."""
    sizes = [whole("kernel_size", int(size), 1, _MOST_WEIGHTS) for size in given.tolist()]
    if prod(sizes) > _MOST_WEIGHTS:
        raise bad_argument("kernel_size", sizes, f"at most {_MOST_WEIGHTS} weights")
    return sizes


@op("popops::splineWeighting", bound="popops.making.bound", draws="testing.encoding_calls")
def spline_weighting(x: Any, weight: Any, basis: Any, weight_index: Any, *, out: Any = None, out_dtype: object = None,
                     target: TargetLike = None) -> Any:
    """Weight the channels of edges by values of splines (``popops::splineWeighting``).

    Parameters
    ----------
    x : array_like [e, i]
        float32, float16 or bfloat16 channels of edges; lists become float32.
    weight : array_like [k, i, o]
        A matrix for each node of the splines.
    basis : array_like [e, s]
        Values of splines, as `spline_basis` returns them.
    weight_index : array_like of int [e, s]
        Whose node each is, from 0 to k - 1.
    out : array [e, o], optional
        Where the result goes.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default float32 where an operand is or where FP16 meets BF16, else the format
        of 16 bits that is there.

    Returns
    -------
    numpy.ndarray [e, o]
        Sum over s of ``basis[:, s] * (x @ weight[weight_index[:, s]])``, an edge at a time.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value, or an index is of no weight. Nothing has been written then.
    UnsupportedError
        If `target` names a machine that has no vertex for it.

    Notes
    -----
    Edges that share a node are multiplied together, in FP32 by BLAS; sums are FP32, those of the splines in ascending
    order, and the result is rounded once. On modelled machines a product with a matrix is a chain in ascending order of
    channels, each product and sum rounded to FP32. PopLibs adds in the operands' type.

    Examples
    --------
    >>> popops.spline_weighting([[2.0]], [[[1.0]], [[10.0]]], [[0.5, 0.25]], np.array([[0, 1]]))
    array([[6.]], dtype=float32)
    """
    names = "x", "weight", "basis"
    given = [array_operand(name, value) for name, value in zip(names, (x, weight, basis), strict=True)]
    for name, operand in zip(names, given, strict=True):
        if operand.format not in (FP32, FP16, BF16):
            raise bad_type(name, f"dtype {operand.array.dtype}", "float32, float16 or bfloat16 numbers")
    edges, nodes_of, coefficients = given
    index = whole_operand("weight_index", weight_index)
    check_shape("x", edges, len(edges.shape) == 2, "[e, i]")
    check_shape("weight", nodes_of, len(nodes_of.shape) == 3 and nodes_of.shape[1] == edges.shape[1],
                f"[k, {edges.shape[1]}, o]")
    check_shape("basis", coefficients, len(coefficients.shape) == 2 and coefficients.shape[0] == edges.shape[0],
                f"[{edges.shape[0]}, s]")
    check_shape("weight_index", index, index.shape == coefficients.shape, f"that of basis, {coefficients.shape}")
    shape = (edges.shape[0], nodes_of.shape[2])
    receiver = receive("out", out, shape, out_dtype, result_format(*given), contiguous=True)
    formats = (*(o.format for o in given), receiver.format)
    placed = place_of(spline_weighting, target, lambda machine: weighting_plan(
        machine, formats,
        (edges.shape[0], edges.shape[1], coefficients.shape[1], shape[1])))

    weigh = _weighted if placed.plan is None else _weighted_in_order
    form = receiver.format  # alone: a program that knows the receiver is not kept

    def run(held: Array, matrices: Array, splines: Array, nodes: Array, result: Array) -> None:
        if nodes.size and (int(nodes.min()) < 0 or int(nodes.max()) >= len(matrices)):
            raise bad_argument("weight_index", f"numbers from {nodes.min()} to {nodes.max()}",
                               f"0 to {len(matrices) - 1}")
        with np.errstate(all="ignore"):
            channels, weights, values = (a.astype(np.float32) for a in (held, matrices, splines))
            made = weigh(channels, weights, values, nodes)
            if form == FP32:
                result[...] = made
            else:
                write(result, coded(made, form))

    return Request(run, (*given, index, RESULT), receiver, told("spline_weighting", edges.shape, edges.format),
                   placed=placed, checks=True)


def _weighted(x: Array, weight: Array, basis: Array, nodes: Array) -> Array:
    made = np.zeros((x.shape[0], weight.shape[2]), np.float32)
    for s in range(nodes.shape[1] if len(x) else 0):
        order = np.argsort(nodes[:, s], kind="stable")
        used, begins = np.unique(nodes[order, s], return_index=True)
        for node, edges in zip(used.tolist(), np.split(order, begins[1:]), strict=True):
            made[edges] += basis[edges, s, None] * (x[edges] @ weight[node])
    return made


def _weighted_in_order(x: Array, weight: Array, basis: Array, nodes: Array) -> Array:
    """The same, a channel after another: BLAS's order is this CPU's."""
    made = np.zeros((x.shape[0], weight.shape[2]), np.float32)
    for s in range(nodes.shape[1]):
        total = np.zeros_like(made)
        for channel in range(x.shape[1]):
            total += x[:, channel, None] * weight[nodes[:, s], channel]
        made += basis[:, s, None] * total
    return made
