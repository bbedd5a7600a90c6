"""Statistics of normalisation, what is made with them, and gradients: PopLibs' ``poplin/Norms.hpp``.

Activations are [N, C, ...]; statistics are per channel, over all other axes. All is FP32. A sum is taken by halves:
along the batch, then along each axis of the field in turn, the later half is added to the earlier one, the middle one
of an odd number waiting, until one is left. That order is the shape's alone: the bits are the same at every
instruction-set level, for any strides and number of threads, and a term meets about the logarithm of their number of
roundings. A modelled machine has PopLibs' plan of each, and these numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import popops
from ..checks import check_shape, finite, flag
from ..formats import Array, Format
from ..ops import RESULT, Operand, Request, op, receive, result_format, wide_format, wide_operand
from ..ops.parts import Part, results
from ..popops.sequence import SequenceBuilder
from ..popops.strided.copies import adding, kernel_of_copies
from ..target import TargetLike
from .norms_modelled import place_of_norm


def _each(step: Callable[..., Any]) -> Callable[..., Request]:
    """What describes a call of an op that does a step with each of its first operand and the others' of its channel."""
    def described(name: str, /, *, out: Any, out_dtype: object, target: Any, **operands: Any) -> Request:
        first, *others = operands.items()
        x = _activations(*first)

        def describe(steps: _Steps, result: Array, first: Array, *vectors: Array) -> None:
            steps.write(result, step, first, *map(steps.spread, vectors))

        of_channels = (_of_channels(*other, x.shape) for other in others)
        return _elementwise(name, (x, *of_channels), describe, out, out_dtype, target)

    return described


class NormStatistics(NamedTuple):
    """What `norm_statistics` returns."""

    mean: Any
    inv_std_dev: Any


class NormParamGradients(NamedTuple):
    """What `norm_param_gradients` returns."""

    gamma_grad: Any
    beta_grad: Any


@op("poplin::normStatistics", bound="poplin.norm_bound", draws="testing.norm_calls", written=None)
def norm_statistics(acts: Any, eps: float, *, unbiased_var_estimate: bool = False, stable_algo: bool = False,
                    out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return the mean and the inverse standard deviation of each channel (``poplin::normStatistics``).

    Parameters
    ----------
    acts : array_like [N, C, ...]
        float32, float16 or bfloat16, of any strides: a channel-last array is passed as its view with the channels
        second.
    eps : float
        Added to the variance; not negative.
    unbiased_var_estimate : bool, optional
        Whether the variance is that of n - 1 degrees of freedom.
    stable_algo : bool, optional
        Whether the variance is the mean of ``(x - mean)^2``. By default it is ``mean(x^2) - mean^2``, at least 0, which
        loses what the mean has more than the deviation.
    out : tuple of two arrays [C], optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default that of `acts`.
    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    mean : numpy.ndarray [C]
    inv_std_dev : numpy.ndarray [C]
        ``1 / sqrt((variance + eps) s)``, s being 1, or n / (n - 1) where unbiased: PopLibs' kernels add `eps` before.

    Notes
    -----
    Of no elements the mean is 0 and the variance too; of one element s is 1. Sums, products and quotients are FP32 each
    (see `poplin.norms`), the results are rounded once more.

    Examples
    --------
    >>> poplin.norm_statistics([[1.0, 4.0], [3.0, 4.0]], 0.25).mean
    array([2., 4.], dtype=float32)
    """
    x = _activations("acts", acts)
    eps = finite("eps", eps, 0.0, 3e38)
    unbiased, stable = flag("unbiased_var_estimate", unbiased_var_estimate), flag("stable_algo", stable_algo)
    part = Part((x.shape[1],), wide_format("out_dtype", out_dtype, x.format))
    made = results(out, (part, part), NormStatistics)
    placed = place_of_norm("norm_statistics", target, (x,), part.format, stable=stable)
    steps = _Steps(x.array, *made.arrays)
    values, mean, inverse = steps.operands
    scale, average = bessel(steps.count, unbiased), steps.mean(lambda a: a, values)
    if stable:
        squares = steps.mean(lambda a, m: (a - m) * (a - m), values, steps.spread(average))
        steps.write(inverse, lambda v: 1 / popops.sqrt((v + eps) * scale), squares)
    else:
        squares = steps.mean(lambda a: a * a, values)
        steps.write(inverse, lambda v, m: 1 / popops.sqrt((popops.maximum(v - m * m, 0) + eps) * scale), squares,
                    average)
    steps.write(mean, lambda m: m, average)
    return Request.to(made, steps.made(), (x,), steps.told("norm_statistics", x.shape, x.format),
                      placed=placed)


def bessel(count: int, unbiased: bool) -> float:
    """What a variance of so many elements is multiplied by."""
    return count / (count - 1) if unbiased and count > 1 else 1.0


@op("poplin::normWhiten", bound="poplin.norm_bound", draws="testing.norm_calls", by=_each(lambda x, m, i: (x - m) * i))
def norm_whiten(acts: Any, mean: Any, inv_std_dev: Any, *, out: Any = None, out_dtype: object = None,
                target: TargetLike = None) -> Any:
    """Return ``(acts - mean) * inv_std_dev``, channel by channel (``poplin::normWhiten``).

    Parameters
    ----------
    acts : array_like [N, C, ...]
        float32, float16 or bfloat16, of any strides.
    mean, inv_std_dev : array_like [C]
        As `norm_statistics` returns them.
    out, out_dtype, target
        As for `normalise`.

    Returns
    -------
    numpy.ndarray [N, C, ...]

    Examples
    --------
    >>> poplin.norm_whiten([[1.0, 4.0]], [0.5, 0.0], [2.0, 1.0])
    array([[1., 4.]], dtype=float32)
    """


@op("poplin::normalise", bound="poplin.norm_bound", draws="testing.norm_calls", by=_each(lambda x, g, b: x * g + b))
def normalise(whitened: Any, gamma: Any, beta: Any, *, out: Any = None, out_dtype: object = None,
              target: TargetLike = None) -> Any:
    """Return ``whitened * gamma + beta``, channel by channel (``poplin::normalise``).

    Parameters
    ----------
    whitened : array_like [N, C, ...]
        float32, float16 or bfloat16, of any strides.
    gamma, beta : array_like [C]
        Scale and shift.
    out : array [N, C, ...], optional
        Where the result goes; it may overlap the operands.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default what the operands' formats give.
    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    numpy.ndarray [N, C, ...]

    Examples
    --------
    >>> poplin.normalise([[1.0, 2.0]], [3.0, 4.0], [0.5, 0.0])
    array([[3.5, 8. ]], dtype=float32)
    """


@op("poplin::normGradients", bound="poplin.norm_bound", draws="testing.norm_calls", by=_each(lambda x, g: x * g))
def norm_gradients(grad: Any, gamma: Any, *, out: Any = None, out_dtype: object = None,
                   target: TargetLike = None) -> Any:
    """Return the gradient with respect to what `normalise` was given: ``grad * gamma`` (``poplin::normGradients``).

    Parameters
    ----------
    grad : array_like [N, C, ...]
        The gradient with respect to what `normalise` returned.
    gamma : array_like [C]
    out, out_dtype, target
        As for `normalise`.

    Returns
    -------
    numpy.ndarray [N, C, ...]

    Examples
    --------
    >>> poplin.norm_gradients([[1.0, 2.0]], [3.0, 4.0])
    array([[3., 8.]], dtype=float32)
    """


@op("poplin::normParamGradients", bound="poplin.norm_bound", draws="testing.norm_calls", written=None)
def norm_param_gradients(grad: Any, whitened: Any, *, out: Any = None, out_dtype: object = None,
                         target: TargetLike = None) -> Any:
    """Return the gradients with respect to scale and shift (``poplin::normParamGradients``).

    Parameters
    ----------
    grad, whitened : array_like [N, C, ...]
        The gradient with respect to what `normalise` returned, and what it was given.
    out : tuple of two arrays [C], optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default what the operands' formats give.
    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    gamma_grad : numpy.ndarray [C]
        Sums of ``whitened * grad``.
    beta_grad : numpy.ndarray [C]
        Sums of `grad`.

    Examples
    --------
    >>> poplin.norm_param_gradients([[1.0], [2.0]], [[3.0], [4.0]]).gamma_grad
    array([11.], dtype=float32)
    """
    g, y = _alike(("grad", grad), ("whitened", whitened))
    part = Part((g.shape[1],), wide_format("out_dtype", out_dtype, result_format(g, y)))
    made = results(out, (part, part), NormParamGradients)
    placed = place_of_norm("norm_param_gradients", target, (g, y), part.format)
    steps = _Steps(g.array, y.array, *made.arrays)
    grads, acts, gamma_grad, beta_grad = steps.operands
    steps.write(gamma_grad, lambda s: s, steps.sum(lambda a, b: a * b, acts, grads))
    steps.write(beta_grad, lambda s: s, steps.sum(lambda a: a, grads))
    return Request.to(made, steps.made(), (g, y), steps.told("norm_param_gradients", g.shape, g.format),
                      placed=placed)


@op("poplin::normStatisticsGradients", bound="poplin.norm_bound", draws="testing.norm_calls")
def norm_statistics_gradients(grad: Any, whitened: Any, inv_std_dev: Any, *, unbiased_var_estimate: bool = False,
                              poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
                              target: TargetLike = None) -> Any:
    """Return the gradient with respect to the activations (``poplin::normStatisticsGradients``).

    Parameters
    ----------
    grad, whitened : array_like [N, C, ...]
        The gradient with respect to what `norm_whiten` returned, and that itself.
    inv_std_dev : array_like [C]
        As `norm_statistics` returned it.
    unbiased_var_estimate : bool, optional
        As it was given it.
    poplibs_exact : bool, optional
        PopLibs' gradient takes no notice of that; by default it is the true derivative.
    out, out_dtype, target
        As for `normalise`.

    Returns
    -------
    numpy.ndarray [N, C, ...]
        ``inv_std_dev * (grad - mean(grad) - s * whitened * mean(whitened * grad))``, s being n / (n - 1) for the true
        derivative where unbiased, and else 1.

    Examples
    --------
    >>> poplin.norm_statistics_gradients([[1.0], [0.0]], [[1.0], [-1.0]], [2.0])
    array([[0.],
           [0.]], dtype=float32)
    """
    g, y = _alike(("grad", grad), ("whitened", whitened))
    inverse = _of_channels("inv_std_dev", inv_std_dev, g.shape)
    unbiased = flag("unbiased_var_estimate", unbiased_var_estimate) and not flag("poplibs_exact", poplibs_exact)

    def describe(steps: _Steps, result: Array, grads: Array, acts: Array, scale: Array) -> None:
        times = bessel(steps.count, unbiased)
        mean, product = steps.mean(lambda a: a, grads), steps.mean(lambda a, b: a * b, acts, grads)
        steps.write(result, lambda g, y, s, m, p: s * ((g - m) - y * (p * times)), grads, acts,
                    *map(steps.spread, (scale, mean, product)))

    return _elementwise("norm_statistics_gradients", (g, y, inverse), describe, out, out_dtype, target)


def _elementwise(name: str, operands: tuple[Operand, ...], describe: Callable[..., None], out: Any, out_dtype: object,
                 target: Any) -> Request:
    """Describe a call whose result has the shape of the first operand; what describes its steps is given them, what
    stands for the result, and for the operands."""
    shape = operands[0].shape
    receiver = receive("out", out, shape, out_dtype, result_format(*operands))
    wide_format("out_dtype" if out is None else "out", receiver.format)
    assert isinstance(receiver.format, Format)
    placed = place_of_norm(name, target, operands, receiver.format)
    steps = _Steps(*(operand.array for operand in operands), receiver.array)
    *given, made = steps.operands
    describe(steps, made, *given)
    return Request(steps.made(), (*operands, RESULT), receiver, steps.told(name, shape, operands[0].format),
                   placed=placed)


def _activations(name: str, value: Any) -> Operand:
    x = wide_operand(name, value)
    check_shape(name, x, len(x.shape) >= 2, "activations [N, C, ...]")
    return x


def _of_channels(name: str, value: Any, shape: tuple[int, ...]) -> Operand:
    x = wide_operand(name, value)
    check_shape(name, x, x.shape == (shape[1],), f"one number for each of the {shape[1]} channels")
    return x


def _alike(first: tuple[str, Any], second: tuple[str, Any]) -> tuple[Operand, Operand]:
    x, y = _activations(*first), _activations(*second)
    check_shape(second[0], y, x.shape == y.shape, f"that of {first[0]}, {x.shape}")
    return x, y


class _Steps(SequenceBuilder):
    """The steps of a call, the first of whose operands are activations: all in FP32, each result rounded once more."""

    @property
    def count(self) -> int:
        """Elements of a channel."""
        acts = self.operands[0]
        return int(acts.size // max(1, acts.shape[1]))

    def spread(self, channels: Array) -> Array:
        """Return numbers of channels as they broadcast over activations."""
        return channels.reshape(1, -1, *(1,) * (self.operands[0].ndim - 2))

    def write(self, result: Array, step: Callable[..., Any], *arrays: Array) -> None:
        """Write what a step makes of arrays to another."""
        self.call(popops.map, step, *arrays, out=result)

    def sum(self, step: Callable[..., Any], *arrays: Array) -> Array:
        """Return sums of what a step makes of activations, by halves along every axis but that of channels."""
        x = self.room(arrays[0].shape, strides=np.empty_like(arrays[0], np.float32).strides)
        if not x.size:
            x = self.room((1, x.shape[1], *(1,) * (x.ndim - 2)))
            self.write(x, lambda zeros: zeros, np.zeros(x.shape, np.float32))
        else:
            self.write(x, step, *arrays)
        for axis in (0, *range(2, x.ndim)):
            while (n := x.shape[axis]) > 1:
                half = (n + 1) // 2
                first, later = (x[(slice(None),) * axis + (part,)] for part in (slice(n - half), slice(half, None)))
                self.run(adding(first.shape, first.strides, later.strides, first.strides), first, later, first,
                         kernel=kernel_of_copies)
                x = x[(slice(None),) * axis + (slice(half),)]
        return x.reshape(-1)

    def mean(self, step: Callable[..., Any], *arrays: Array) -> Array:
        """Return means of what a step makes of activations."""
        total = self.sum(step, *arrays)
        self.call(popops.div, total, float(max(1, self.count)), out=total)
        return total
