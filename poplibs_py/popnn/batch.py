"""What batch norm needs beside a batch's own statistics: those of a run, of several machines, and inference.

Statistics are FP32 results of `poplibs_py.popops` reductions; what is made of one number for each channel is float64,
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..errors import bad_argument, bad_type, check_shape, finite, flag, whole
from ..formats import Floats, QuarterArray
from ..ops import one_scale_operand, op, receive, result_format
from ..poplin.norms import bessel
from ..popops import add, cast, mul, square_sum
from ..popops import sum as total
from ..popops import variance as spread
from ..target import TargetLike
from ._rows import NO_STATISTICS, RowOperand, RowsParams, row_of, rows_request
from .norms import NormGradients


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


def _activations(name: str, value: Any) -> tuple[int, ...]:
    """The shape of activations."""
    x = one_scale_operand(name, value)
    check_shape(name, x, len(x.shape) >= 2, "activations [N, C, ...]")
    return x.shape


def _channels(name: str, value: Any, count: int, default: float | None = None) -> Floats:
    """One number for each channel."""
    if value is None and default is not None:
        return np.full(count, default)
    x = one_scale_operand(name, value)
    check_shape(name, x, x.shape == (count,), f"shape {(count,)}, one number for each channel")
    if isinstance(value, QuarterArray):
        return np.asarray(value.to_array(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(x.array).astype(np.float64)


def _reduced(all_reduce: Callable[..., Any] | None, values: Floats) -> Floats:
    """What the callback makes of one machine's sums."""
    if all_reduce is None:
        return values
    made = np.asarray(all_reduce(values.copy()))
    if made.dtype.kind not in "fiu":
        raise bad_type("all_reduce", f"a result of dtype {made.dtype}", "a function that returns sums of its argument")
    if made.shape != values.shape:
        raise bad_argument("all_reduce", f"a result of shape {made.shape}", f"that of its argument, {values.shape}")
    return made.astype(np.float64)


def _callback(all_reduce: Any) -> Callable[..., Any] | None:
    if all_reduce is not None and not callable(all_reduce):
        raise bad_type("all_reduce", type(all_reduce).__name__, "a function, or None")
    return all_reduce  # type: ignore[no-any-return]


def batch_norm_statistics(x: Any, *, stable_algo: bool = True,
                          all_reduce: Callable[..., Any] | None = None) -> BatchStatistics:
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

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> popnn.batch_norm_statistics([[1.0, 4.0], [3.0, 4.0]])
    BatchStatistics(mean=array([2., 4.], dtype=float32), variance=array([1., 0.], dtype=float32), elements=2)
    """
    shape, stable, reduce = _activations("x", x), flag("stable_algo", stable_algo), _callback(all_reduce)
    axes, count = (0, *range(2, len(shape))), prod(shape) // max(1, shape[1])
    if count == 0:
        own, apart = np.zeros(shape[1]), np.zeros(shape[1])
    else:
        own = np.asarray(total(x, axes, out_dtype="float32")).astype(np.float64) / count
        if stable:
            apart = np.asarray(spread(x, axes, out_dtype="float32")).astype(np.float64)
        else:
            squares = np.asarray(square_sum(x, axes, out_dtype="float32")).astype(np.float64)
            apart = squares / count - own * own
    with np.errstate(all="ignore"):
        if reduce is not None and stable:
            sums = _reduced(reduce, np.stack([np.full(shape[1], float(count)), own * count]))
            all_of = sums[1] / np.maximum(1, sums[0])
            [squares] = _reduced(reduce, (count * (apart + (own - all_of) ** 2))[None])
            own, apart, count = all_of, squares / np.maximum(1, sums[0]), _count(sums[0], count)
        elif reduce is not None:
            squares = (apart + own * own) * count
            sums = _reduced(reduce, np.stack([np.full(shape[1], float(count)), own * count, squares]))
            own, squares = sums[1:] / np.maximum(1, sums[0])
            apart, count = squares - own * own, _count(sums[0], count)
        made = (own.astype(np.float32), np.where(apart < 0, 0.0, apart).astype(np.float32))
    return BatchStatistics(*made, count)


def _count(sums: Floats, own: int) -> int:
    return int(sums[0]) if sums.size else own


def batch_norm_training(x: Any, gamma: Any = None, beta: Any = None, *, running_mean: Any = None,
                        running_variance: Any = None, momentum: float = 0.1, eps: float = 1e-5,
                        unbiased_var_estimate: bool = False, stable_algo: bool = True,
                        all_reduce: Callable[..., Any] | None = None, out: Any = None,
                        out_dtype: object = None) -> BatchNorm:
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
        Where y goes.
    out_dtype : Format, dtype or str, optional
        Its format; by default that of x, float16 of FP8: statistics, scale and shift are numbers of FP32 to it.

    Returns
    -------
    BatchNorm
        The result, the batch's statistics, and the new running statistics, float32. Nothing given is changed but `out`.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.

    Notes
    -----
    PopLibs leaves running statistics to its callers. Where `x` is on one machine, `batch_norm_grad` gives the
    gradients; else `distributed_batch_norm_grad`.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> made = popnn.batch_norm_training([[1.0, 4.0], [3.0, 4.0]], momentum=0.5, eps=0.0)
    >>> made.running_mean, made.running_variance
    (array([1., 2.], dtype=float32), array([1.5, 0.5], dtype=float32))
    """
    shape, by = _activations("x", x), finite("momentum", momentum, 0.0, 1.0)
    before = (_channels("running_mean", running_mean, shape[1], 0.0),
              _channels("running_variance", running_variance, shape[1], 1.0))
    unbiased, small = flag("unbiased_var_estimate", unbiased_var_estimate), finite("eps", eps, 0.0, 3e38)
    _channels("gamma", gamma, shape[1], 1.0), _channels("beta", beta, shape[1], 0.0)
    statistics = batch_norm_statistics(x, stable_algo=stable_algo, all_reduce=all_reduce)
    factor = bessel(statistics.elements, unbiased)
    y = batch_norm_inference(x, statistics.mean, statistics.variance.astype(np.float64) * factor, gamma, beta,
                             eps=small * factor, out=out, out_dtype=out_dtype)
    with np.errstate(all="ignore"):
        now = statistics.mean, statistics.variance * bessel(statistics.elements, True)
        after = [((1 - by) * old + by * new).astype(np.float32) for old, new in zip(before, now, strict=True)]
    return BatchNorm(y, statistics, *after)


def _combined(variance: Floats, mean: Floats, gamma: Floats, beta: Floats, eps: float) -> tuple[Any, Any]:
    """What activations are multiplied by, and what is added then."""
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + eps)
        return scale, beta - mean * scale


def batch_norm_inference(x: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5,
                         out: Any = None, out_dtype: object = None) -> Any:
    """Batch norm by statistics that are known: one multiplication and one addition.

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        float32, float16, bfloat16 or FP8 numbers, of any strides.
    mean, variance : array_like [C]
        Such as `batch_norm_training` returns; float64 too.
    gamma, beta : array_like [C], optional
        Scale and shift.
    eps : float, optional
        Added to the variance; not negative.
    out : array or QuarterArray, optional
        Where the result goes.
    out_dtype : Format, dtype or str, optional
        Its format; by default that of `out`, without one what the format of `x` gives.

    Returns
    -------
    numpy.ndarray
        `batch_normalise` of ``gamma / sqrt(variance + eps)`` and ``beta - mean gamma / sqrt(variance + eps)``, which
        are float64 rounded once to float32.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.

    Notes
    -----
    After a convolution or a product it need not be done at all: `fold_batch_norm`.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> popnn.batch_norm_inference([[1.0, 4.0]], [0.0, 2.0], [4.0, 1.0], eps=0.0)
    array([[0.5, 2. ]], dtype=float32)
    """
    count = _activations("x", x)[1]
    scale, shift = _combined(*_statistics(mean, variance, gamma, beta, count), finite("eps", eps, 0.0, 3e38))
    with np.errstate(over="ignore"):
        return batch_normalise(x, scale.astype(np.float32), shift.astype(np.float32), out=out, out_dtype=out_dtype)


def _statistics(mean: Any, variance: Any, gamma: Any, beta: Any, count: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Variance, mean, scale and shift of the channels."""
    exact = isinstance(variance, np.ndarray) and variance.dtype == np.float64
    with np.errstate(over="ignore"):
        spread_out = _channels("variance", variance.astype(np.float32) if exact else variance, count)
    return (variance if exact else spread_out, _channels("mean", mean, count), _channels("gamma", gamma, count, 1.0),
            _channels("beta", beta, count, 0.0))


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
    shape, read = _activations("x", x), one_scale_operand("x", x)
    by, more = one_scale_operand("multiplicand", multiplicand), one_scale_operand("addend", addend)
    for name, own in (("multiplicand", by), ("addend", more)):
        check_shape(name, own, own.shape == shape[1:2], f"shape {shape[1:2]}, one number for each channel")
    receiver = receive("out", out, shape, out_dtype, result_format(read), (read, by, more), like=read.array)
    strides = receiver.array.strides
    beside = len(shape) == 2 or abs(strides[1]) < min(abs(step) for step in strides[2:])
    axes = (1,) if beside else tuple(range(2, len(shape)))
    kept = (1, shape[1], *(1,) * (len(shape) - 2))
    rows = (row_of(read, 0, shape),
            *(row_of(own.seen(lambda array: array.reshape(kept)), number, shape, single=not beside)
              for number, own in ((1, by), (2, more))),
            RowOperand(3, receiver.format, strides, receiver.scale, written=True))
    params = RowsParams("norm", shape, axes, rows, 4, centred=NO_STATISTICS)
    return rows_request((params,), (read, by, more), receiver)


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
    shape = _activations("x", x)
    if not isinstance(statistics, BatchStatistics):
        raise bad_type("statistics", type(statistics).__name__, "a BatchStatistics")
    g = one_scale_operand("grad", grad)
    check_shape("grad", g, g.shape == shape, f"that of x, {shape}")
    read, reduce = one_scale_operand("x", x), _callback(all_reduce)
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
        sums = _reduced(reduce, np.stack([beta_grad, gamma_grad]).astype(np.float64)) / count
        by, nothing = scale * inverse, np.zeros(shape[1], np.float32)
        near = batch_normalise(grad, by.astype(np.float32), (-by * sums[0]).astype(np.float32), out_dtype="float32")
        far = batch_normalise(y, (-by * sums[1] * part).astype(np.float32), nothing)
    return NormGradients(add(near, far, out_dtype=made), cast(gamma_grad, made), cast(beta_grad, made))


def fold_batch_norm(weights: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, bias: Any = None, *,
                    eps: float = 1e-5, axis: int = 0, out_dtype: object = None) -> FoldedWeights:
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
    out_dtype : Format, dtype or str, optional
        Of the folded weights; by default what the format of `weights` gives.

    Returns
    -------
    weights : numpy.ndarray
        `weights` times ``gamma / sqrt(variance + eps)``.
    bias : numpy.ndarray [C] of float32
        ``beta + (bias - mean) gamma / sqrt(variance + eps)``: the ``bias=`` of `poplin.convolution` and
        `poplin.matmul`, whose epilogue adds it and applies the activation.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> folded = popnn.fold_batch_norm([[1.0, 2.0]], [1.0], [4.0], bias=[3.0], eps=0.0)
    >>> folded.weights, folded.bias
    (array([[0.5, 1. ]], dtype=float32), array([1.], dtype=float32))
    """
    w = one_scale_operand("weights", weights)
    if not w.shape:
        raise bad_argument("weights", "shape ()", "an axis of channels")
    at = whole("axis", axis, -len(w.shape), len(w.shape) - 1) % len(w.shape)
    count = w.shape[at]
    scale, shift = _combined(*_statistics(mean, variance, gamma, beta, count), finite("eps", eps, 0.0, 3e38))
    made = result_format(w) if out_dtype is None else out_dtype
    with np.errstate(all="ignore"):
        added = (_channels("bias", bias, count, 0.0) * scale + shift).astype(np.float32)
        by = scale.astype(np.float32).reshape([count if d == at else 1 for d in range(len(w.shape))])
    return FoldedWeights(mul(weights, by, out_dtype=made), added)
