"""What batch norm needs beside a batch's own statistics: those of a run, of several machines, and inference.

Statistics are those of `poplibs_py.popnn.norms`, written beside the result; what is made of one number for each channel
is float64, rounded once (``src_cython/kernels/rows/channels.h``). What several machines make of their statistics
together is in `poplibs_py.popnn.machines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_shape, finite, flag, whole
from ..errors import bad_argument, bad_type
from ..formats import FP32, Array, Floats, Format, QuarterArray
from ..ops import BESIDE, Operand, Placed, Receiver, Request, one_scale_operand, op, receive, result_format
from ..ops.parts import Part, Results, Several, part_format, results
from ..poplin.norms import bessel
from ..popops import add, cast, mul
from ..popops import sum as total
from ..popops.sequence import SequenceBuilder, as_taken
from ..target import TargetLike
from .machines import callback, reduced, statistics_of_all
from .norms import Layout, NormGradients, batched
from .rows.modelled import place_of_norm
from .rows.params import RowOperand, RowsParams
from .rows.request import row_of, rows_request


class BatchStatistics(NamedTuple):
    """Of each channel: the mean, the variance (of n degrees of freedom), and of how many elements they are."""

    mean: Any
    variance: Any
    elements: int


class BatchNorm(NamedTuple):
    """What `batch_norm_training` returns."""

    y: Any
    statistics: BatchStatistics
    running_mean: Any
    running_variance: Any


class FoldedWeights(NamedTuple):
    """What `fold_batch_norm` returns."""

    weights: Any
    bias: Any


def _activations(name: str, value: Any) -> Operand:
    """Activations of any strides."""
    x = one_scale_operand(name, value)
    check_shape(name, x, len(x.shape) >= 2, "activations [N, C, ...]")
    return x


def _vector(name: str, value: Any, count: int) -> Operand:
    """One number for each channel."""
    x = one_scale_operand(name, value)
    check_shape(name, x, x.shape == (count,), f"shape {(count,)}, one number for each channel")
    return x


def _perhaps(name: str, value: Any, count: int) -> Operand | None:
    """The same, or none."""
    return None if value is None else _vector(name, value, count)


def _channels(name: str, value: Any, count: int, default: float | None = None) -> Floats:
    """The same as float64 numbers."""
    if value is None and default is not None:
        return np.full(count, default)
    x = _vector(name, value, count)
    if isinstance(value, QuarterArray):
        return np.asarray(value.to_array(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(x.array).astype(np.float64)


def _numbered(first: int, *vectors: Operand | None) -> list[RowOperand | None]:
    """How numbers of channels lie that are a call's operands from so many on."""
    rows: list[RowOperand | None] = []
    for x in vectors:
        rows.append(None if x is None else row_of(x, first, x.shape, single=True))
        first += x is not None
    return rows


def _beside_acts(x: RowOperand | None, shape: tuple[int, ...], single: bool = True) -> RowOperand | None:
    """How they lie beside activations."""
    return None if x is None else x._replace(strides=(0, *x.strides, *(0,) * (len(shape) - 2)), single=single)


def _elements(layout: Layout) -> int:
    return prod(layout.shape[d] for d in layout.axes)


def _further(number: int, *offsets: int) -> list[RowOperand]:
    """Float32 numbers of channels that are written to bytes, an operand, from these on."""
    return [RowOperand(number, FP32, (4,), single=True, written=True, offset=at) for at in offsets]


def _normed(x: Operand, layout: Layout, channels: list[RowOperand | None], to: RowOperand | None,
            statistics: list[RowOperand], **how: Any) -> RowsParams:
    """A norm of activations with its statistics, or these alone; one of them is written to the last operand."""
    beside = [_beside_acts(row, layout.shape) for row in (*channels, *statistics)]
    rows = (row_of(x, 0, layout.shape), *beside[:2], to, *beside[2:])
    return RowsParams("norm", layout.shape, layout.axes, rows, 1 + (to or statistics[-1]).operand,
                      mode="centred", segments=layout.segments, **how)


@op("popnn::bn::batchNormStatistics", bound="popnn.norm_bound", draws="testing.row_calls", written=None)
def batch_norm_statistics(x: Any, *, stable_algo: bool = True, all_reduce: Callable[..., Any] | None = None,
                          target: TargetLike = None) -> Any:
    """Return each channel's mean and variance (``popnn::bn::batchNormStatistics``, ``distributedBatchNormStatistics``).

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        float32, float16, bfloat16 or FP8 numbers, of any strides.
    stable_algo : bool, optional
        Whether the variance is the mean of ``(x - mean)^2``; else it is ``mean(x^2) - mean^2``, at least 0, which loses
        what the mean has more than the deviation, and takes `all_reduce` once.
    all_reduce : callable, optional
        Of several machines with a part of the batch each: is given a float64 array [k, C] of this machine's sums and
        returns that of all machines', as PopLibs' callback does.

    Returns
    -------
    BatchStatistics
        float32 arrays [C] of mean and variance, and the number of elements, of all machines.

    Examples
    --------
    >>> popnn.batch_norm_statistics([[1.0, 4.0], [3.0, 4.0]])
    BatchStatistics(mean=array([2., 4.], dtype=float32), variance=array([1., 0.], dtype=float32), elements=2)
    """
    read, stable, reduce = _activations("x", x), flag("stable_algo", stable_algo), callback(all_reduce)
    layout, part = batched(read.shape), Part(read.shape[1:2], FP32)
    placed = place_of_norm("batch_norm_statistics", target, (read,), read.format, layout.shape, layout.axes,
                           layout.params, stable=stable, machines=reduce is not None)
    if reduce is not None:
        *known, count = statistics_of_all(x, read.shape, reduce, stable)
        made = results(None, (part, part, count), BatchStatistics)
        _fill(made.views(made.receiver.array)[:2], known)
        return Request.to(made, None, (), lambda: ("sums of several machines", "none", None), placed=placed)
    made = results(None, (part, part, _elements(layout)), BatchStatistics)
    params = _normed(read, layout, [None, None], None, [*_further(1, 0), *_further(2, 0)], raw=not stable)
    return rows_request((params,), (read,), made, placed)


def _fill(arrays: Sequence[Array], values: Iterable[Array]) -> None:
    for array, value in zip(arrays, values, strict=True):
        array[...] = value


@op("", bound="popnn.norm_bound", draws="testing.row_calls")
def batch_norm_training(x: Any, gamma: Any = None, beta: Any = None, *, running_mean: Any = None,
                        running_variance: Any = None, momentum: float = 0.1, eps: float = 1e-5,
                        unbiased_var_estimate: bool = False, stable_algo: bool = True,
                        all_reduce: Callable[..., Any] | None = None, out: Any = None, out_dtype: object = None,
                        target: TargetLike = None) -> Any:
    """Batch norm by the batch's statistics, and running statistics moved towards these.

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        float32, float16, bfloat16 or FP8 numbers, of any strides.
    gamma, beta : array_like [C], optional
        Scale and shift.
    running_mean, running_variance : array_like [C], optional
        What they were; by default 0 and 1.
    momentum : float, optional
        m, from 0 to 1: they become ``(1 - m) running + m batch``, with the variance of n - 1 degrees of freedom, as in
        torch.
    eps : float, optional
        Added to the variance; not negative.
    unbiased_var_estimate : bool, optional
        Whether `x` too is divided by what ``(variance + eps) n / (n - 1)`` gives, as by PopLibs.
    stable_algo, all_reduce
        As for `batch_norm_statistics`.
    out : array or QuarterArray, optional
        Where y goes, of any strides; it may overlap the operands.
    out_dtype : Format, dtype or str, optional
        Its format; by default that of `out`, without one that of `x`, float16 of FP8: statistics, scale and shift are
        numbers of FP32 to it.

    Returns
    -------
    BatchNorm
        The result, the batch's statistics, and the new running statistics, float32. Nothing given is changed but `out`.

    Notes
    -----
    What `batch_norm` does, with its statistics written beside the result: y has the bits of
    ``batch_norm(x, gamma, beta, eps=, unbiased_var_estimate=, out_dtype=)``, but where `stable_algo` is false or the
    statistics are those of several machines. PopLibs leaves running statistics to its callers: on a modelled machine
    they are two scaled additions. Where `x` is on one machine, `batch_norm_grad` gives the gradients; else
    `distributed_batch_norm_grad`.

    Examples
    --------
    >>> made = popnn.batch_norm_training([[1.0, 4.0], [3.0, 4.0]], momentum=0.5, eps=0.0)
    >>> made.running_mean, made.running_variance
    (array([1., 2.], dtype=float32), array([1.5, 0.5], dtype=float32))
    """
    read, by, small = _activations("x", x), finite("momentum", momentum, 0.0, 1.0), finite("eps", eps, 0.0, 3e38)
    unbiased, stable = flag("unbiased_var_estimate", unbiased_var_estimate), flag("stable_algo", stable_algo)
    given = {"gamma": gamma, "beta": beta, "running_mean": running_mean, "running_variance": running_variance}
    vectors = [_perhaps(name, value, read.shape[1]) for name, value in given.items()]
    layout, reduce, operands = batched(read.shape), callback(all_reduce), [read, *(v for v in vectors if v is not None)]
    receiver = receive("out", out, read.shape, out_dtype, result_format(read), like=read.array)
    assert isinstance(receiver.format, Format)
    placed = place_of_norm("batch_norm_training", target, [v for v in (read, *vectors[:2]) if v is not None],
                           receiver.format, layout.shape, layout.axes, layout.params, stable=stable,
                           machines=reduce is not None)
    if reduce is not None:
        statistics = BatchStatistics(*statistics_of_all(x, read.shape, reduce, stable))
        return _by_statistics(read, statistics, given, by, small, unbiased, receiver, placed)
    channels, number, count = _numbered(1, *vectors), len(operands), _elements(layout)
    made = _results(read.shape[1], count)
    further = _further(number, *made.offsets)
    norm = _normed(read, layout, channels[:2], row_of(receiver, number + 1, read.shape), further[:2], epsilon=small,
                   factor=bessel(count, unbiased), raw=not stable)
    of_batch = [row._replace(written=False) for row in further[:2]]
    running = RowsParams("running", read.shape[1:2], (), (*channels[2:], *of_batch, *further[2:]), number + 2,
                         scale=by, factor=bessel(count, True))
    return rows_request((norm, running), (*operands, BESIDE), receiver, placed, beside=made)


def _results(channels: int, count: int) -> Results:
    """What receives statistics beside the result."""
    part = Part((channels,), FP32)
    return results(None, (None, Several(BatchStatistics, (part, part, count)), part, part), BatchNorm)


def _by_statistics(x: Operand, statistics: BatchStatistics, given: dict[str, Any], by: float, eps: float,
                   unbiased: bool, receiver: Receiver, placed: Placed[Any]) -> Request:
    """Describe what is left where the statistics are those of several machines: a scale and a shift of channels."""
    mean, variance, count = statistics
    factor, made = bessel(count, unbiased), _results(len(mean), count)
    gamma, beta, *running = (_channels(name, value, len(mean), default)
                             for (name, value), default in zip(given.items(), (1.0, 0.0, 0.0, 1.0), strict=True))
    combined = _combined(variance.astype(np.float64) * factor, mean, gamma, beta, eps * factor)
    batch = mean.astype(np.float64), variance.astype(np.float64) * bessel(count, True)
    _, own, *after = made.views(made.receiver.array)
    with np.errstate(all="ignore"):
        scale, shift = (Operand(numbers.astype(np.float32), FP32) for numbers in combined)
        moved = [(1 - by) * old + by * new for old, new in zip(running, batch, strict=True)]
        _fill([*own[:2], *after], [mean, variance, *moved])
    rows = [RowOperand(k, FP32, (4,), single=True) for k in (1, 2)]
    return rows_request((_scaled(x, rows, receiver, 3),), (x, scale, shift), receiver, placed, beside=made)


def _combined(variance: Floats, mean: Floats, gamma: Floats, beta: Floats, eps: float) -> tuple[Any, Any]:
    """What activations are multiplied by, and what is added then."""
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + eps)
        return scale, beta - mean * scale


@op("", bound="popnn.norm_bound", draws="testing.row_calls", lacks="in one pass")
def batch_norm_inference(x: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5,
                         out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Batch norm by statistics that are known: one multiplication and one addition.

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        float32, float16, bfloat16 or FP8 numbers, of any strides.
    mean, variance : array_like [C]
        Such as `batch_norm_training` returns.
    gamma, beta : array_like [C], optional
        Scale and shift.
    eps : float, optional
        Added to the variance; not negative.
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap the operands.
    out_dtype : Format, dtype or str, optional
        Its format; by default that of `out`, without one what the format of `x` gives.

    Returns
    -------
    numpy.ndarray
        `batch_normalise` of ``gamma / sqrt(variance + eps)`` and ``beta - mean gamma / sqrt(variance + eps)``, which
        are float64 rounded once to float32.

    Notes
    -----
    After a convolution or a product it need not be done at all: `fold_batch_norm`.

    Examples
    --------
    >>> popnn.batch_norm_inference([[1.0, 4.0]], [0.0, 2.0], [4.0, 1.0], eps=0.0)
    array([[0.5, 2. ]], dtype=float32)
    """
    read, small = _activations("x", x), finite("eps", eps, 0.0, 3e38)
    count = read.shape[1]
    vectors = (*(_vector(*known, count) for known in (("mean", mean), ("variance", variance))),
               *(_perhaps(*given, count) for given in (("gamma", gamma), ("beta", beta))))
    operands = (read, *(v for v in vectors if v is not None))
    receiver = receive("out", out, read.shape, out_dtype, result_format(read), like=read.array)
    number = len(operands)
    both = _further(number + 1, 0, 4 * count)
    scales = RowsParams("scales", (count,), (), (*_numbered(1, *vectors), *both), number + 1, epsilon=small)
    norm = _scaled(read, [row._replace(written=False) for row in both], receiver, number)
    return rows_request((scales, norm), operands, receiver, workspace=8 * count)


@op("popnn::bn::batchNormalise", bound="popnn.norm_bound", draws="testing.row_calls", lacks="in one pass")
def batch_normalise(x: Any, multiplicand: Any, addend: Any, *, out: Any = None, out_dtype: object = None,
                    target: TargetLike = None) -> Any:
    """``x multiplicand + addend``, channel by channel (``popnn::bn::batchNormalise``'s form for inference).

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        float32, float16, bfloat16 or FP8 numbers, of any strides. Lists become float32.
    multiplicand, addend : array_like [C]
        ``gamma / deviation`` and ``beta - mean gamma / deviation``.
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap the operands.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: what the format of `x` gives.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape of `x`.

    Notes
    -----
    Both steps are rounded to FP32, then to the result's format.

    Examples
    --------
    >>> popnn.batch_normalise([[1.0, 4.0]], [0.5, 1.0], [0.0, -2.0])
    array([[0.5, 2. ]], dtype=float32)
    """
    read = _activations("x", x)
    by = _vector("multiplicand", multiplicand, read.shape[1])
    more = _vector("addend", addend, read.shape[1])
    receiver = receive("out", out, read.shape, out_dtype, result_format(read), like=read.array)
    rows = [row_of(own, number, own.shape, single=True) for number, own in ((1, by), (2, more))]
    return rows_request((_scaled(read, rows, receiver, 3),), (read, by, more), receiver)


def _scaled(x: Operand, channels: Sequence[RowOperand], receiver: Receiver, number: int) -> RowsParams:
    """What multiplies and adds numbers of channels, given which operand the result is."""
    shape, strides = x.shape, receiver.array.strides
    beside = len(shape) == 2 or abs(strides[1]) < min(abs(step) for step in strides[2:])
    axes = (1,) if beside else tuple(range(2, len(shape)))
    rows = (row_of(x, 0, shape), *(_beside_acts(row, shape, single=not beside) for row in channels),
            row_of(receiver, number, shape))
    return RowsParams("norm", shape, axes, rows, number + 1, mode="no statistics")


def distributed_batch_norm_grad(grad: Any, x: Any, statistics: BatchStatistics, gamma: Any = None, *,
                                eps: float = 1e-5, unbiased_var_estimate: bool = False, poplibs_exact: bool = False,
                                all_reduce: Callable[..., Any] | None = None,
                                out_dtype: object = None) -> NormGradients:
    """Gradients of batch norm over several machines (``popnn::bn::distributedBatchNormGradients``).

    Parameters
    ----------
    grad, x : array_like [N, C, ...]
        The gradient with respect to the result, and what was normalised: this machine's part of the batch.
    statistics : BatchStatistics
        Of all machines, as `batch_norm_statistics` or `batch_norm_training` returned them.
    gamma : array_like [C], optional
        Scale.
    eps, unbiased_var_estimate
        As they were then.
    poplibs_exact : bool, optional
        Whether the gradient takes no notice of that, as PopLibs'; by default it is the true derivative.
    all_reduce : callable, optional
        As it was then.
    out_dtype : Format, dtype or str, optional
        Of all three; by default what the operands' formats give.

    Returns
    -------
    NormGradients
        With respect to `x`; and this machine's parts of those with respect to gamma and beta, which are to be added
        over machines as all gradients of weights are.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.

    Notes
    -----
    A composition of `batch_normalise`, sums and products, FP32 between: on one machine `batch_norm_grad` is faster.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> x, grad = [[1.0], [3.0]], [[1.0], [0.0]]
    >>> popnn.distributed_batch_norm_grad(grad, x, popnn.batch_norm_statistics(x), eps=0.0).gamma_grad
    array([-1.], dtype=float32)
    """
    read, reduce = _activations("x", x), callback(all_reduce)
    shape = read.shape
    if not isinstance(statistics, BatchStatistics):
        raise bad_type("statistics", type(statistics).__name__, "a BatchStatistics")
    g = one_scale_operand("grad", grad)
    check_shape("grad", g, g.shape == shape, f"that of x, {shape}")
    made = result_format(g, read) if out_dtype is None else out_dtype
    scale = _channels("gamma", gamma, shape[1], 1.0)
    small = finite("eps", eps, 0.0, 3e38)
    count = max(1, whole("elements", statistics.elements, 0))
    factor = bessel(count, flag("unbiased_var_estimate", unbiased_var_estimate))
    part = 1.0 if flag("poplibs_exact", poplibs_exact) else factor
    variance, centre = (_channels(name, getattr(statistics, name), shape[1]) for name in ("variance", "mean"))
    with np.errstate(all="ignore"):
        inverse, shift = _combined(variance * factor, centre, np.ones(shape[1]), np.zeros(shape[1]), small * factor)
        y = batch_normalise(x, inverse.astype(np.float32), shift.astype(np.float32), out_dtype="float32")
        axes = (0, *range(2, len(shape)))
        beta_grad = np.asarray(total(grad, axes, out_dtype="float32"))
        gamma_grad = np.asarray(total(mul(y, grad, out_dtype="float32"), axes, out_dtype="float32"))
        sums = reduced(reduce, np.stack([beta_grad, gamma_grad]).astype(np.float64)) / count
        by, nothing = scale * inverse, np.zeros(shape[1], np.float32)
        near = batch_normalise(grad, by.astype(np.float32), (-by * sums[0]).astype(np.float32), out_dtype="float32")
        far = batch_normalise(y, (-by * sums[1] * part).astype(np.float32), nothing)
    return NormGradients(add(near, far, out_dtype=made), cast(gamma_grad, made), cast(beta_grad, made))


@op(bound="popnn.norm_bound", draws="testing.row_calls", written=None, lacks="in any form")
def fold_batch_norm(weights: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, bias: Any = None, *,
                    eps: float = 1e-5, axis: int = 0, out: Any = None, out_dtype: object = None,
                    target: TargetLike = None) -> Any:
    """Fold the batch norm behind a convolution or a product into its weights and bias.

    Parameters
    ----------
    weights : array_like
        [C, ...] for a convolution, [K, C] with ``axis=1`` for a product: float32, float16, bfloat16 or FP8.
    mean, variance : array_like [C]
        Running statistics.
    gamma, beta : array_like [C], optional
        Scale and shift.
    bias : array_like [C], optional
        What the convolution or product adds before.
    eps : float, optional
        Added to the variance; not negative.
    axis : int, optional
        Of `weights`, along which channels of the result lie.
    out : tuple of two arrays, optional
        Where the results go; the second is of float32.
    out_dtype : Format, dtype or str, optional
        Of the folded weights; by default what the format of `weights` gives.

    Returns
    -------
    weights : numpy.ndarray
        `weights` times ``gamma / sqrt(variance + eps)``.
    bias : numpy.ndarray [C] of float32
        ``beta + (bias - mean) gamma / sqrt(variance + eps)``: the ``bias=`` of `poplin.convolution` and
        `poplin.matmul`, whose epilogue adds it and applies the activation.

    Notes
    -----
    What there is one of for each channel is float64, rounded once; the weights are multiplied in FP32.

    Examples
    --------
    >>> folded = popnn.fold_batch_norm([[1.0, 2.0]], [1.0], [4.0], bias=[3.0], eps=0.0)
    >>> folded.weights, folded.bias
    (array([[0.5, 1. ]], dtype=float32), array([1.], dtype=float32))
    """
    w = one_scale_operand("weights", weights)
    if not w.shape:
        raise bad_argument("weights", "shape ()", "an axis of channels")
    at = whole("axis", axis, -len(w.shape), len(w.shape) - 1) % len(w.shape)
    count, small = w.shape[at], finite("eps", eps, 0.0, 3e38)
    vectors = {name: _vector(name, value, count) for name, value in (
        ("mean", mean), ("variance", variance), ("gamma", gamma), ("beta", beta), ("bias", bias))
        if value is not None or name in ("mean", "variance")}
    parts = Part(w.shape, part_format(out_dtype, w), w.array, strided=True), Part((count,), FP32)
    made = results(out, parts, FoldedWeights)
    steps = SequenceBuilder(w.array, *(x.array for x in vectors.values()), *made.arrays)
    array, *channels, folded, added = steps.operands
    numbers = [x if v.format == FP32 else steps.call(cast, as_taken(x, v), FP32)
               for x, v in zip(channels, vectors.values(), strict=True)]
    by, names = steps.room((count,)), tuple(vectors)

    def fold(*arrays: Array) -> None:
        *wide, factor, shift = arrays
        with np.errstate(all="ignore"):
            known = _FOLDED | {name: x.astype(np.float64) for name, x in zip(names, wide, strict=True)}
            scale, moved = _combined(known["variance"], known["mean"], known["gamma"], known["beta"], small)
            factor[...], shift[...] = scale, known["bias"] * scale + moved

    steps.run(fold, *numbers, by, added)
    along = by.reshape([count if d == at else 1 for d in range(len(w.shape))])
    steps.call(mul, as_taken(array, w), along, out=folded)
    return Request.to(made, steps.made(), (w, *vectors.values()), steps.told("fold_batch_norm", w.shape, w.format))


_FOLDED: dict[str, Any] = {"gamma": 1.0, "beta": 0.0, "bias": 0.0}
"""What there is for each channel where none is given."""
