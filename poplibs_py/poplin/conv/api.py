"""Convolutions: the three passes of a layer, on this CPU and on modelled machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature, unwrap
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, whole
from ...formats import FP32, Format, format_of
from ...ops import (
    RESULT,
    Array,
    Operand,
    Receiver,
    Request,
    host_target,
    op,
    operand,
    receive,
    result_format,
)
from ...target import Target
from ..convolution import ConvParams
from ..gemm.lower import lower as lower_gemm
from ..gemm.options import GemmOptions, options_of
from ..gemm.params import MatrixLayout
from ..gemm.plan import Epilogue
from ..gemm.search import plan_gemm
from .lower import lower
from .model import ONE, bias_sum, channel_sums
from .options import parse_options
from .params import (
    ConvCall,
    Described,
    FieldLayout,
    images_of,
    images_shape,
    kernels_of,
    new_images,
    stated,
    stated_input_gradient,
    stated_weights,
    weights_shape,
)
from .plan import plan_call

__all__ = [
    "add_bias",
    "calculate_weight_deltas",
    "convolution",
    "convolution_bias_update",
    "convolution_input_gradient",
    "convolution_weight_update",
    "convolution_with_output",
    "weights_transpose_chans_flip_xy",
]

_BOUND, _DRAWS = "poplin.conv.bound:", "testing.conv_calls:"


@op("poplin.convolution", poplibs="poplin::convolution", bound=_BOUND + "convolution_bound",
    draws=_DRAWS + "convolution_calls")
def convolution(
    x: Any,
    weights: Any,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    params: ConvParams | None = None,
    layout: str = "NCHW",
    transpose_and_flip_weights: bool = False,
    bias: Any = None,
    residual: Any = None,
    activation: str | None = None,
    out: Any = None,
    out_dtype: Any = None,
    partials_type: str = "float",
    available_memory_proportion: float | None = None,
    reproducible: bool = False,
    strict_memory: bool = False,
    target: Target | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Convolve images with weights: ``activation(conv(x, weights) + residual + bias)``.

    Corresponds to PopLibs' ``poplin::convolution``: a cross-correlation over any number of field dimensions, with groups
    and every transform of `ConvParams`.

    Parameters
    ----------
    x : array_like [N, G * Ci, field...]
        Images, float32, float16, bfloat16 or an FP8 dtype, with any strides; or a `QuarterArray` with one scale.
    weights : array_like [G * Co, Ci, kernel...] or [G, Co, Ci, kernel...]
        Any of those formats, not necessarily x's.
    stride, dilation : int or sequence of int, optional
        Of the output and of the kernel, for all field dimensions or for each. Default 1.
    padding : int, or sequence of int or of pairs, optional
        Zeros around the field, for all dimensions or for each; a pair is before and after. Default 0.
    groups : int, optional
        Convolution groups; by default the first extent of weights that have an axis of groups, or 1.
    params : ConvParams, optional
        All transforms in PopLibs' terms, in place of these four. Its data types are not looked at.
    layout : {"NCHW", "NHWC"}, optional
        Order of the axes of images, where HW stands for all field dimensions. With ``"NHWC"`` weights are
        [kernel..., Ci, G * Co], with groups of their own in front. Strides decide what is fast, not the order of axes:
        images whose channels lie side by side are, in either layout.
    transpose_and_flip_weights : bool, optional
        Take weights with input and output channels exchanged, and every kernel dimension backwards: the weights of the
        forward pass in a backward one. Default False.
    bias : array_like [G * Co], optional
        Added to each output channel, output padding included.
    residual : array_like, optional
        Added to the convolution; of the result's shape and format.
    activation : {None, "relu", "gelu", "silu"}, optional
        Applied before the result is rounded; gelu is the tanh form.
    out : array or QuarterArray, optional
        Where the result goes, as for `matmul`.
    out_dtype : dtype, Format or str, optional
        The result's format; by default as for `matmul`.
    partials_type, available_memory_proportion, reproducible, strict_memory, target
        As for `matmul`.
    options : mapping, optional
        PopLibs' convolution options, such as ``{"partialsType": "half"}``; one that contradicts a keyword is refused.

    Returns
    -------
    numpy.ndarray or QuarterArray [N, G * Co, output...]
        `out` where it was given. A new array lies as `x` does: with channels innermost where they are so in `x`.

    Notes
    -----
    Along each dimension the input is truncated, dilated, padded and flipped, and so is the kernel; the convolution's
    outputs are truncated, every `stride`-th is kept, and zeros are padded; then the bias is added to all of them.
    Numerics are those of `matmul` with a depth of (kernel elements, Ci). Zeros that padding and dilation put into the
    input may be multiplied or left out: where one meets an infinite or NaN weight nothing is promised.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> poplin.convolution(x, np.ones((1, 1, 3, 3), np.float32), padding=1, stride=2)[0, 0]
    array([[10., 24.],
           [51., 90.]], dtype=float32)
    """
    how = Described.of(stride=stride, padding=padding, dilation=dilation, groups=groups, params=params, layout=layout)
    machine = host_target(target, "convolutions")
    settled = _Settings.of(options, partials_type, available_memory_proportion, reproducible, strict_memory, activation)
    images, kernels = operand("x", x), operand("weights", weights)
    w_lies, (g, made, taken), kernel = kernels_of(kernels, "weights", how, images.array.ndim - 2)
    if transpose_and_flip_weights:
        w_lies, made, taken = w_lies.exchanged.flipped(kernel), taken, made
    x_lies, batch, channels, field = images_of(images, "x", how, g)
    if channels != g * taken:
        raise bad_argument("x", f"{channels} channels", f"the {g * taken} input channels of weights {kernels.shape}")
    p = stated(how, batch, field, kernel, taken, made, g)
    shape = images_shape(how, batch, g * made, p.output_shape)
    added = None if bias is None else _bias(bias, g * made)
    rest = None if residual is None else operand("residual", residual)
    receiver = _receive(out, out_dtype, shape, (images, kernels, added, rest), None if how.channels_last else images)
    rest = None if rest is None else _as_result(rest, receiver)
    call = ConvCall(p, x_lies, w_lies, _lies(receiver.operand, "out", how, g), _bias_layout(added, g))
    return _request(call, settled, machine, images, kernels, receiver, added, rest)


@op("poplin.convolution_with_output", poplibs="poplin::convolutionWithOutput",
    bound=_BOUND + "convolution_with_output_bound", draws=_DRAWS + "convolution_with_output_calls")
def convolution_with_output(x: Any, weights: Any, out: Any, **keywords: Any) -> Any:
    """Convolve into `out`, as `convolution` does with that keyword: PopLibs' ``poplin::convolutionWithOutput``."""
    if out is None:
        raise bad_type("out", "None", "an array or a QuarterArray, which receives the result")
    return _described("convolution_with_output", convolution, keywords)(x, weights, out=out, **keywords)


@op("poplin.convolution_input_gradient", poplibs="poplin::convolution", bound=_BOUND + "input_gradient_bound",
    draws=_DRAWS + "input_gradient_calls")
def convolution_input_gradient(
    deltas: Any,
    weights: Any,
    *,
    field: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    params: ConvParams | None = None,
    layout: str = "NCHW",
    out: Any = None,
    out_dtype: Any = None,
    partials_type: str = "float",
    available_memory_proportion: float | None = None,
    reproducible: bool = False,
    strict_memory: bool = False,
    target: Target | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return the gradient of a convolution's images, given that of its result.

    Corresponds to PopLibs' ``poplin::convolution`` with ``getGradientParams`` and weights transposed and flipped.

    Parameters
    ----------
    deltas : array_like [N, G * Co, output...]
        Gradient of the result.
    weights : array_like
        Those of the forward pass.
    field : int or sequence of int, optional
        Field of the images: a stride leaves open how large they were. By default the smallest field that gives such
        a result, or that of `out`.
    stride, padding, dilation, groups, params, layout
        Of the forward pass, as for `convolution`.
    out, out_dtype, partials_type, available_memory_proportion, reproducible, strict_memory, target, options
        As for `convolution`.

    Returns
    -------
    numpy.ndarray or QuarterArray [N, G * Ci, field...]

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> deltas, weights = np.ones((1, 1, 2), np.float32), np.array([[[1, 2, 3]]], np.float32)
    >>> poplin.convolution_input_gradient(deltas, weights, stride=2, field=6)
    array([[[1., 2., 4., 2., 3., 0.]]], dtype=float32)
    """
    how = Described.of(stride=stride, padding=padding, dilation=dilation, groups=groups, params=params, layout=layout)
    machine = host_target(target, "convolutions")
    settled = _Settings.of(options, partials_type, available_memory_proportion, reproducible, strict_memory)
    given, kernels = operand("deltas", deltas), operand("weights", weights)
    p = stated_input_gradient(how, given, kernels, field, out)
    shape = images_shape(how, p.batch, p.groups * p.in_channels, p.field_shape)
    receiver = _receive(out, out_dtype, shape, (given, kernels), None if how.channels_last else given)
    d_lies, w_lies = _lies(given, "deltas", how, p.groups), kernels_of(kernels, "weights", how, p.ndim)[0]
    call = ConvCall.input_gradient(p, d_lies, w_lies, _lies(receiver.operand, "out", how, p.groups))
    return _request(call, settled, machine, given, kernels, receiver)


@op("poplin.calculate_weight_deltas", poplibs="poplin::calculateWeightDeltas", bound=_BOUND + "weight_deltas_bound",
    draws=_DRAWS + "weight_deltas_calls")
def calculate_weight_deltas(
    deltas: Any,
    x: Any,
    *,
    kernel: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    params: ConvParams | None = None,
    layout: str = "NCHW",
    out: Any = None,
    out_dtype: Any = None,
    partials_type: str = "float",
    available_memory_proportion: float | None = None,
    reproducible: bool = False,
    strict_memory: bool = False,
    target: Target | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return the gradient of a convolution's weights, given that of its result.

    Corresponds to PopLibs' ``poplin::calculateWeightDeltas``.

    Parameters
    ----------
    deltas : array_like [N, G * Co, output...]
        Gradient of the result.
    x : array_like [N, G * Ci, field...]
        Images of the forward pass.
    kernel : int or sequence of int, optional
        Extents of the kernel. By default what `params` or `out` say, or the largest that gives such a result.
    stride, padding, dilation, groups, params, layout
        Of the forward pass, as for `convolution`.
    out, out_dtype, partials_type, available_memory_proportion, reproducible, strict_memory, target, options
        As for `convolution`.

    Returns
    -------
    numpy.ndarray or QuarterArray [G * Co, Ci, kernel...]
        With an axis of groups in front where `out` has one.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    >>> poplin.calculate_weight_deltas(np.ones((1, 1, 3), np.float32), x)
    array([[[3., 6., 9.]]], dtype=float32)
    """
    how = Described.of(stride=stride, padding=padding, dilation=dilation, groups=groups, params=params, layout=layout)
    machine = host_target(target, "convolutions")
    settled = _Settings.of(options, partials_type, available_memory_proportion, reproducible, strict_memory)
    given, images = operand("deltas", deltas), operand("x", x)
    return _weight_request(how, settled, machine, given, images, kernel, None, out, out_dtype)


@op("poplin.convolution_weight_update", poplibs="poplin::convolutionWeightUpdate",
    bound=_BOUND + "weight_update_bound", draws=_DRAWS + "weight_update_calls", written="weights")
def convolution_weight_update(
    deltas: Any,
    weights: Any,
    x: Any,
    scale: float,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    params: ConvParams | None = None,
    layout: str = "NCHW",
    partials_type: str = "float",
    available_memory_proportion: float | None = None,
    reproducible: bool = False,
    strict_memory: bool = False,
    target: Target | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Update weights in place by their gradient: ``weights += scale * calculate_weight_deltas(deltas, x)``.

    Corresponds to PopLibs' ``poplin::convolutionWeightUpdate``.

    Parameters
    ----------
    deltas, x
        As for `calculate_weight_deltas`.
    weights : array or QuarterArray
        Read, and overwritten with the result in its own format.
    scale : float
        Multiplies the gradient: minus the learning rate.
    stride, padding, dilation, groups, params, layout
        Of the forward pass, as for `convolution`.
    partials_type, available_memory_proportion, reproducible, strict_memory, target, options
        As for `convolution`.

    Returns
    -------
    numpy.ndarray
        `weights`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> x, w = np.arange(5, dtype=np.float32).reshape(1, 1, 5), np.zeros((1, 1, 3), np.float32)
    >>> poplin.convolution_weight_update(np.ones((1, 1, 3), np.float32), w, x, -0.5)
    array([[[-1.5, -3. , -4.5]]], dtype=float32)
    """
    how = Described.of(stride=stride, padding=padding, dilation=dilation, groups=groups, params=params, layout=layout)
    machine = host_target(target, "convolutions")
    epilogue = Epilogue.of(scale, 1.0, None)
    settled = _Settings.of(options, partials_type, available_memory_proportion, reproducible, strict_memory)
    given, images = operand("deltas", deltas), operand("x", x)
    if weights is None:
        raise bad_type("weights", "None", "an array or a QuarterArray, which receives the result")
    kernels = operand("weights", weights)
    settled = replace(settled, epilogue=epilogue)
    return _weight_request(how, settled, machine, given, images, None, kernels, weights, None)


@op("poplin.add_bias", poplibs="poplin::addBias", bound=_BOUND + "add_bias_bound", draws=_DRAWS + "add_bias_calls",
    written="acts")
def add_bias(acts: Any, bias: Any, *, layout: str = "NCHW", target: Target | str | None = None) -> Any:
    """Add a bias to each channel, in place.

    Corresponds to PopLibs' ``poplin::addBias``. `convolution` adds one on the way, without another pass over its result.

    Parameters
    ----------
    acts : array or QuarterArray [N, C, field...]
        Read, and overwritten with the result in its own format.
    bias : array_like [C]
    layout : {"NCHW", "NHWC"}, optional
        Order of the axes.
    target : Target or str, optional
        This CPU.

    Returns
    -------
    numpy.ndarray
        `acts`.

    Notes
    -----
    Each sum is rounded to FP32, then once to the format.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> poplin.add_bias(np.zeros((1, 2, 3), np.float32), [1, 2])
    array([[[1., 1., 1.],
            [2., 2., 2.]]], dtype=float32)
    """
    how = Described.of(stride=1, padding=0, dilation=1, groups=None, params=None, layout=layout)
    machine = host_target(target, "adding a bias")
    if acts is None:
        raise bad_type("acts", "None", "an array or a QuarterArray, which receives the result")
    _, _, channels, _ = images_of(operand("acts", acts), "acts", how, 1)
    added = _bias(bias, channels)
    receiver = receive("acts", acts, None, None, FP32, (added,), reads=True)
    lies, batch, _, field = images_of(receiver.operand, "acts", how, 1)
    params = bias_sum(lies, batch, channels, field, added)
    made = lower_gemm(plan_gemm(params, GemmOptions(), Epilogue(1.0, 1.0), machine))
    return Request(made.executable, made.arrange(added, added, RESULT, added), receiver, made.told)


@op("poplin.convolution_bias_update", poplibs="poplin::convolutionBiasUpdate", bound=_BOUND + "bias_update_bound",
    draws=_DRAWS + "bias_update_calls", written="bias")
def convolution_bias_update(deltas: Any, bias: Any, scale: float, *, layout: str = "NCHW",
                            target: Target | str | None = None) -> Any:
    """Update a bias in place by its gradient: ``bias += scale * deltas.sum(over images and field)``.

    Corresponds to PopLibs' ``poplin::convolutionBiasUpdate``.

    Parameters
    ----------
    deltas : array_like [N, C, field...]
        Gradient of the convolution's result.
    bias : array [C]
        Read, and overwritten with the result in its own format.
    scale : float
        Multiplies the gradient: minus the learning rate.
    layout : {"NCHW", "NHWC"}, optional
        Order of the axes of `deltas`.
    target : Target or str, optional
        This CPU.

    Returns
    -------
    numpy.ndarray
        `bias`.

    Notes
    -----
    Sums are FP32 in any order, as those of `matmul`; ``scale * sum`` is rounded to FP32, then ``bias + scale * sum``,
    and the result once to its format.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> poplin.convolution_bias_update(np.ones((2, 1, 5), np.float32), np.ones(1, np.float32), -0.5)
    array([-4.], dtype=float32)
    """
    how = Described.of(stride=1, padding=0, dilation=1, groups=None, params=None, layout=layout)
    machine, given = host_target(target, "updating a bias"), operand("deltas", deltas)
    lies, batch, channels, field = images_of(given, "deltas", how, 1)
    if bias is None:
        raise bad_type("bias", "None", "an array, which receives the result")
    receiver = receive("bias", bias, (channels,), None, FP32, (given,), reads=True)
    params = channel_sums(lies, batch, channels, field, receiver.operand)
    made = lower_gemm(plan_gemm(params, GemmOptions(), Epilogue.of(scale, 1.0, None), machine))
    return Request(made.executable, made.arrange(ONE, given, RESULT), receiver, made.told)


def weights_transpose_chans_flip_xy(weights: Any, *, field_dims: int | None = None) -> Array:
    """Return weights as a backward pass convolves with them: channels exchanged, kernels backwards; a view.

    Corresponds to PopLibs' ``poplin::weightsTransposeChansFlipXY``. `convolution` does the same with
    ``transpose_and_flip_weights=True``.

    Parameters
    ----------
    weights : array_like [G, Co, Ci, kernel...]
    field_dims : int, optional
        Dimensions of the kernel; by default all after the third axis.

    Returns
    -------
    numpy.ndarray [G, Ci, Co, kernel...]

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> poplin.weights_transpose_chans_flip_xy(np.arange(4, dtype=np.float32).reshape(1, 2, 1, 2))
    array([[[[1., 0.],
             [3., 2.]]]], dtype=float32)
    """
    array = operand("weights", weights).array
    dims = array.ndim - 3 if field_dims is None else whole("field_dims", field_dims, 0)
    if array.ndim != 3 + dims or array.ndim < 3:
        raise bad_argument("weights", f"shape {array.shape}", "groups, output and input channels, then the kernel")
    turned: Array = np.flip(array.swapaxes(1, 2), tuple(range(3, array.ndim)))
    return turned


# What faces share -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Settings:
    """How a call is computed."""

    options: GemmOptions
    epilogue: Epilogue

    @classmethod
    def of(cls, options: Any, partials_type: Any, proportion: Any, reproducible: Any, strict: Any,
           activation: Any = None) -> _Settings:
        """Check a caller's keywords."""
        base = options_of(proportion, partials_type, reproducible, strict, 4)
        return cls(parse_options(options, base), Epilogue.of(1.0, 0.0, activation))


def _described(name: str, function: Any, keywords: Mapping[str, Any]) -> Any:
    """Return the function below a face, if it knows these keywords."""
    parameters = signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.name != "out"]
    unknown = [keyword for keyword in keywords if keyword not in known]
    if unknown:
        raise bad_type(f"{name}()", f"keyword {', '.join(unknown)}", ", ".join(known))
    return unwrap(function)


def _request(call: ConvCall, settled: _Settings, machine: Target, x: Operand, weights: Operand, receiver: Receiver,
             bias: Operand | None = None, residual: Operand | None = None) -> Request:
    epilogue = settled.epilogue if residual is None else replace(settled.epilogue, beta=1.0)
    if not receiver.array.size:
        return Request(None, (), receiver, lambda: ("an empty convolution", "none", None))
    made = lower(plan_call(call, settled.options, epilogue, machine, residual is not None))
    operands = x, weights, RESULT, *(() if bias is None else (bias,)), *(() if residual is None else (residual,))
    return Request(made.executable, operands, receiver, made.told, keep=made.plan.fits)


def _weight_request(how: Described, settled: _Settings, machine: Target, deltas: Operand, x: Operand, kernel: Any,
                    kernels: Operand | None, out: Any, out_dtype: Any) -> Request:
    """Describe the gradient of weights: new ones, or on top of those that are there."""
    name, written = ("out", out) if kernels is None else ("weights", kernels)
    written = operand(name, written) if kernels is None and out is not None else written
    p = stated_weights(how, deltas, x, kernel, written, name)
    shape = weights_shape(how, p, written is not None and written.array.ndim == p.ndim + 3)
    fmt = result_format(_format(deltas), _format(x))
    receiver = receive(name, out, shape, out_dtype, fmt, (deltas, x), reads=kernels is not None)
    lies, _, _ = kernels_of(receiver.operand, name, replace(how, groups=p.groups, params=None), p.ndim)
    call = ConvCall.weight_gradient(p, _lies(deltas, "deltas", how, p.groups), _lies(x, "x", how, p.groups), lies)
    return _request(call, settled, machine, x, deltas, receiver)


def _receive(out: Any, out_dtype: Any, shape: tuple[int, ...], operands: tuple[Operand | None, ...],
             like: Operand | None) -> Receiver:
    x, weights, *_ = operands
    assert x is not None
    assert weights is not None
    fmt = result_format(_format(x), _format(weights))
    if out is None and like is not None:
        return new_images(shape, fmt if out_dtype is None else format_of(out_dtype, "out_dtype"), like)
    return receive("out", out, shape, out_dtype, fmt, operands)


def _format(x: Operand) -> Format:
    assert x.format is not None
    return x.format


def _lies(x: Operand, name: str, how: Described, groups: int) -> FieldLayout:
    return images_of(x, name, how, groups)[0]


def _bias(bias: Any, channels: int) -> Operand:
    """Take a bias."""
    added = operand("bias", bias)
    if added.scale or added.scales:
        raise bad_type("bias", "a QuarterArray", "an array")
    if added.shape != (channels,):
        raise bad_argument("bias", f"shape {added.shape}", f"one number for each channel, ({channels},)")
    return added


def _bias_layout(bias: Operand | None, groups: int) -> MatrixLayout | None:
    if bias is None:
        return None
    step = bias.array.strides[0]
    return MatrixLayout(_format(bias), 0, step, (bias.shape[0] // groups * step,))


def _as_result(residual: Operand, receiver: Receiver) -> Operand:
    """Return what is added to a result, lying as the result does."""
    made = receiver.operand
    fits = residual.shape == made.shape and residual.format == made.format and residual.scale == made.scale
    if not fits or residual.scales:
        raise bad_argument("residual", f"{residual.format} of shape {residual.shape}",
                           f"the result's format and shape, {made.format} of shape {made.shape}")
    if residual.array.strides == made.array.strides and residual.array.flags.aligned:
        return residual
    copy = np.empty_like(made.array)
    copy[...] = residual.array
    return replace(residual, array=copy, place=None)
