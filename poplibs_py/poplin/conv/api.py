"""Convolutions: the three passes of a layer, on this CPU and on modelled machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...checks import check_shape, flag, instance, whole
from ...errors import bad_argument, bad_type, check_keys
from ...formats import Array
from ...ops import (
    AS_ASKED,
    RESULT,
    Request,
    as_planned,
    catalogue,
    compiled,
    op,
    operand,
    planned_receiver,
    unchanged,
)
from ...target import Target, TargetLike, resolve_target
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue
from ..product.api import keywords_of
from ..tile_conv import ConvParams, ConvPlan
from ..tile_conv import plan_convolution as plan_modelled
from .lower import lower
from .options import parse_options
from .params import Described, contiguous_call, images_shape, weights_shape
from .plan import HostConvPlan
from .prepared import packed_weights
from .request import deltas_pass, forward_pass, gradient_pass, request_by, update_request
from .search import plan_call


@op("poplin::convolution", bound="poplin.conv.bound", draws="testing.conv_calls", values=("seed",),
    by=request_by(forward_pass))
def convolution(x: Any, weights: Any, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                groups: int | None = None, params: ConvParams | None = None, layout: str = "NCHW",
                transpose_and_flip_weights: bool = False, bias: Any = None, residual: Any = None,
                activation: str | None = None, out: Any = None, out_dtype: Any = None, partials_type: str = "float",
                available_memory_proportion: float | None = None, reproducible: bool = False,
                strict_memory: bool = False, winograd: bool = False, target: TargetLike = None,
                seed: Any = None, options: Mapping[str, Any] | None = None) -> Any:
    """Convolve images with weights: ``activation(conv(x, weights) + residual + bias)``.

    Corresponds to PopLibs' ``poplin::convolution``: a cross-correlation over any number of field dimensions, with
    groups and every transform of `ConvParams`.

    Parameters
    ----------
    x : array_like [N, G * Ci, field...]
        Images, float32, float16, bfloat16 or an FP8 dtype, with any strides; or a `QuarterArray`. Where its blocks have
        scales of their own it is decoded first, to a copy that no limit on memory counts: to bfloat16 where it is 8
        bits wide, else to float32, both exact.
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
        Take weights with input and output channels swapped, and every kernel dimension backwards: the weights of the
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
    partials_type, available_memory_proportion, reproducible, strict_memory
        As for `matmul`.
    winograd : bool, optional
        Allow Winograd's transforms on this CPU where they are faster: float32 operands, 3x3 kernels over two field
        dimensions without strides and dilation. Fewer products, with a wider error bound (see Notes). Default False.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are those of its plan:
        operands have one type, a bias has the result's format, and there is no residual. Sums are rounded to the
        result's format, after the bias again, and after the activation again, as PopLibs' vertices do.
    seed : int or (int, int), optional
        On a modelled machine, for stochastic roundings, as for `matmul`.
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

    With Winograd's transforms sums are off by at most gamma_n times the same transforms of magnitudes, where n is
    Ci + 18 for tiles of 4 x 4 results, Ci + 10 for those of 2 x 2; nothing is promised of tiles that meet an infinity
    or NaN. `poplibs_py.testing.bound` takes the tile that the plan takes.

    Examples
    --------
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> poplin.convolution(x, np.ones((1, 1, 3, 3), np.float32), padding=1, stride=2)[0, 0]
    array([[10., 24.],
           [51., 90.]], dtype=float32)
    """


@op("poplin::convolutionWithOutput", bound="poplin.conv.bound", draws="testing.conv_calls")
def convolution_with_output(x: Any, weights: Any, out: Any, **keywords: Any) -> Any:
    """Convolve into `out`, as `convolution` does with that keyword: PopLibs' ``poplin::convolutionWithOutput``."""
    if out is None:
        raise bad_type("out", "None", "an array or a QuarterArray, which receives the result")
    known = keywords_of(convolution)
    check_keys("convolution_with_output()", keywords, [name for name in known if name != "out"], keywords=True)
    return forward_pass(x=x, weights=weights, **known | keywords | {"out": out}).request()


@op("poplin::convolution", bound="poplin.conv.bound",
    draws="testing.conv_calls", values=("seed",), by=request_by(gradient_pass))
def convolution_input_gradient(deltas: Any, weights: Any, *, field_shape: Any = None, stride: Any = 1, padding: Any = 0,
                               dilation: Any = 1, groups: int | None = None, params: ConvParams | None = None,
                               layout: str = "NCHW", out: Any = None, out_dtype: Any = None,
                               partials_type: str = "float", available_memory_proportion: float | None = None,
                               reproducible: bool = False, strict_memory: bool = False, winograd: bool = False,
                               target: TargetLike = None, seed: Any = None,
                               options: Mapping[str, Any] | None = None) -> Any:
    """Return the gradient of a convolution's images, given that of its result.

    Corresponds to PopLibs' ``poplin::convolution`` with ``getGradientParams`` and weights transposed and flipped.

    Parameters
    ----------
    deltas : array_like [N, G * Co, output...]
        Gradient of the result.
    weights : array_like
        Those of the forward pass.
    field_shape : int or sequence of int, optional
        Field of the images: a stride leaves open how large they were. By default the smallest field that gives such
        a result, or that of `out`.
    stride, padding, dilation, groups, params, layout
        Of the forward pass, as for `convolution`.
    out, out_dtype, partials_type, available_memory_proportion, reproducible, strict_memory, winograd, target
        As for `convolution`.
    seed, options
        As for `convolution`.

    Returns
    -------
    numpy.ndarray or QuarterArray [N, G * Ci, field...]

    Examples
    --------
    >>> deltas, weights = np.ones((1, 1, 2), np.float32), np.array([[[1, 2, 3]]], np.float32)
    >>> poplin.convolution_input_gradient(deltas, weights, stride=2, field_shape=6)
    array([[[1., 2., 4., 2., 3., 0.]]], dtype=float32)
    """


@op("poplin::calculateWeightDeltas", bound="poplin.conv.bound",
    draws="testing.conv_calls", values=("seed",), by=request_by(deltas_pass))
def calculate_weight_deltas(deltas: Any, x: Any, *, kernel_shape: Any = None, stride: Any = 1, padding: Any = 0,
                            dilation: Any = 1, groups: int | None = None, params: ConvParams | None = None,
                            layout: str = "NCHW", out: Any = None, out_dtype: Any = None, partials_type: str = "float",
                            available_memory_proportion: float | None = None, reproducible: bool = False,
                            strict_memory: bool = False, target: TargetLike = None, seed: Any = None,
                            options: Mapping[str, Any] | None = None) -> Any:
    """Return the gradient of a convolution's weights, given that of its result.

    Corresponds to PopLibs' ``poplin::calculateWeightDeltas``.

    Parameters
    ----------
    deltas : array_like [N, G * Co, output...]
        Gradient of the result.
    x : array_like [N, G * Ci, field...]
        Images of the forward pass.
    kernel_shape : int or sequence of int, optional
        Extents of the kernel. By default what `params` or `out` say, or the largest that gives such a result.
    stride, padding, dilation, groups, params, layout
        Of the forward pass, as for `convolution`.
    out, out_dtype, partials_type, available_memory_proportion, reproducible, strict_memory, target, seed, options
        As for `convolution`.

    Returns
    -------
    numpy.ndarray or QuarterArray [G * Co, Ci, kernel...]
        With an axis of groups in front where `out` has one.

    Examples
    --------
    >>> x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    >>> poplin.calculate_weight_deltas(np.ones((1, 1, 3), np.float32), x)
    array([[[3., 6., 9.]]], dtype=float32)
    """


@op("poplin::convolutionWeightUpdate", bound="poplin.conv.bound",
    draws="testing.conv_calls", written="weights", numbers=("scale",), by=update_request)
def convolution_weight_update(deltas: Any, weights: Any, x: Any, scale: float, *, stride: Any = 1, padding: Any = 0,
                              dilation: Any = 1, groups: int | None = None, params: ConvParams | None = None,
                              layout: str = "NCHW", partials_type: str = "float",
                              available_memory_proportion: float | None = None, reproducible: bool = False,
                              strict_memory: bool = False, target: TargetLike = None,
                              options: Mapping[str, Any] | None = None) -> Any:
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

    Notes
    -----
    On a modelled machine weights have the operands' format. The gradient is rounded to it, then multiplied and added as
    `popops.scaled_add` does.

    Examples
    --------
    >>> x, w = np.arange(5, dtype=np.float32).reshape(1, 1, 5), np.zeros((1, 1, 3), np.float32)
    >>> poplin.convolution_weight_update(np.ones((1, 1, 3), np.float32), w, x, -0.5)
    array([[[-1.5, -3. , -4.5]]], dtype=float32)
    """


def plan_convolution(params: ConvParams, *, target: Target | str = "gc200", options: Any = None, dtype: Any = None,
                     w_dtype: Any = None, out_dtype: Any = None, bias_dtype: Any = None, activation: str | None = None,
                     layout: str = "NCHW", **more: Any) -> HostConvPlan | ConvPlan:
    """Plan a convolution without running it: for a modelled machine as PopLibs plans it, or for this CPU.

    Corresponds to PopLibs' ``getPlan``. For the other passes hand in ``params.gradient()``, with weights transposed
    and flipped, or ``params.weight_update()``.

    Parameters
    ----------
    params : ConvParams
        The convolution; for a modelled machine with its data types.
    target : Target or str, optional
        The machine; default GC200. ``"host"`` is this CPU.
    options : mapping or ConvOptions, optional
        PopLibs' convolution options.
    dtype, w_dtype, out_dtype, bias_dtype : dtype, Format or str, optional
        On this CPU: formats of images and of the result (default what `params` say: float32, float16, and FP8 F143 for
        quarter; with `dtype` the result's is as for `convolution`), of weights (default the images') and of a bias
        (default there is none).
    activation, layout : str, optional
        On this CPU, as for `convolution`; arrays are C-contiguous.
    **more
        On a modelled machine what `poplibs_py.poplin.tile_conv.plan_convolution` takes; on this CPU the options of
        `convolution` by keyword.

    Returns
    -------
    ConvPlan or HostConvPlan
        Its `explain` tells what was decided.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> params = poplin.ConvParams.create(field=[56, 56], kernel=[3, 3], in_channels=64, out_channels=64)
    >>> poplin.plan_convolution(params, target="host", available_memory_proportion=0.1).fits
    True
    >>> poplin.plan_convolution(params.replace(input_type="half", output_type="half"), target="gc200").cycles
    7531
    """
    machine = resolve_target(target)
    own = {"dtype": dtype, "w_dtype": w_dtype, "out_dtype": out_dtype, "bias_dtype": bias_dtype,
           "activation": activation}
    if machine.kind != "host":
        for name, value in own.items():
            if value is not None:
                raise bad_argument(name, value, f"None on {machine.name}: params say the types")
        return plan_modelled(params, target=target, options=options, **more)
    instance("params", params, ConvParams, "a ConvParams")
    call = contiguous_call(params, Described.of(layout=layout), dtype, w_dtype, out_dtype, bias_dtype)
    check_keys("plan_convolution()", more, (*own, "layout", *_KEYWORDS), keywords=True)
    transforms = flag("winograd", more.pop("winograd", False))
    chosen = parse_options(options, GemmOptions(**more))
    plan = plan_call(call, chosen, Epilogue.of(1.0, 0.0, activation), machine, winograd=transforms)
    return replace(plan, layout=layout)


_KEYWORDS = ("partials_type", "available_memory_proportion", "reproducible", "strict_memory", "winograd")


def compile_convolution(plan: HostConvPlan, weights: Any = None) -> Callable[..., Any]:
    """Make a plan of this CPU into a function to use many times, from any number of threads.

    Parameters
    ----------
    plan : HostConvPlan
        As `plan_convolution` returned it for ``target="host"``.
    weights : array_like [G, Co, Ci, kernel...] or [G, kernel..., Ci, Co], optional
        Weights of all calls, of the planned shape and format: copied, and packed or transformed once. Later changes to
        them are not seen.

    Returns
    -------
    callable
        ``run(x, weights, *, out=None, bias=None)`` on operands of the planned shapes and formats, weights
        [G, Co, Ci, kernel...] (or [G, kernel..., Ci, Co]); ``run(x, *, out=None, bias=None)`` where weights were given.
        Its attribute ``plan`` is the plan, which with weights packed may be another one: the same problem at less work.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the plan is none that the planner makes here.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> params = poplin.ConvParams.create(field=[4], kernel=[2], in_channels=1, out_channels=1)
    >>> run = poplin.compile_convolution(poplin.plan_convolution(params, target="host"))
    >>> run(np.arange(4, dtype=np.float32).reshape(1, 1, 4), np.ones((1, 1, 1, 2), np.float32))
    array([[[1., 3., 5.]]], dtype=float32)
    >>> run = poplin.compile_convolution(run.plan, np.ones((1, 1, 1, 2), np.float32))
    >>> run(np.arange(4, dtype=np.float32).reshape(1, 1, 4))
    array([[[1., 3., 5.]]], dtype=float32)
    """
    instance("plan", plan, HostConvPlan, "a plan from plan_convolution for this CPU")
    call, how = plan.call, Described.of(layout=plan.layout)
    if plan.prepared and weights is None:
        raise bad_argument("weights", "None", "the weights, which this plan has packed")
    if plan.epilogue.beta and not plan.residual:
        raise bad_argument("plan", "that of an update of weights", "a plan from plan_convolution for this CPU")
    transforms = plan.winograd is not None
    unchanged(plan, lambda: replace(plan_call(call, plan.options, plan.epilogue, plan.target, winograd=transforms,
                                              prepared=plan.prepared), layout=plan.layout))
    p = call.params
    shapes = {"x": images_shape(how, p.batch, p.groups * p.in_channels, p.field_shape),
              "weights": weights_shape(how, p, True), "bias": (p.groups * p.out_channels,)}
    result = images_shape(how, p.batch, p.groups * p.out_channels, p.output_shape)

    held = None
    if weights is not None:
        held = packed_weights(plan, as_planned("weights", weights, call.weights.format, shapes["weights"]))
    made = lower(held.plan if held else plan)

    def request(x: Any, weights: Any, out: Any, bias: Any) -> Request:
        if (call.bias is None) != (bias is None):
            raise bad_argument("bias", "an array" if call.bias is None else "None", "as it was planned")
        planned = ("x", x, call.x), ("weights", weights, call.weights), ("bias", bias, call.bias)
        given = {name: as_planned(name, value, lies.format, shapes[name]) for name, value, lies in planned
                 if lies and not (held and name == "weights")}
        receiver = planned_receiver(out, result, call.out.format)
        images, added = given["x"], given.get("bias")
        operands = held.arrange(images, RESULT, added) if held else (
            images, given["weights"], RESULT, *(() if added is None else (added,)))
        return Request(made.executable, operands, receiver, made.told, placed=AS_ASKED)

    def run(x: Any, weights: Any, *, out: Any = None, bias: Any = None) -> Any:
        """Run a planned convolution: see `compile_convolution`."""
        return request(x, weights, out, bias)

    def run_prepared(x: Any, weights: Any = None, *, out: Any = None, bias: Any = None) -> Any:
        """Run a planned convolution with the weights that it was compiled with: see `compile_convolution`."""
        if weights is not None:
            raise bad_type("weights", weights, "none: it was compiled with weights, which all of its calls have")
        return request(x, None, out, bias)

    return compiled(made.plan, catalogue["poplin.convolution"], run_prepared if held else run, made.told()[0])


def weights_transpose_chans_flip_xy(weights: Any, *, field_dims: int = 2) -> Array:
    """Return weights as a backward pass convolves with them: channels swapped, kernels backwards; a view.

    Corresponds to PopLibs' ``poplin::weightsTransposeChansFlipXY``. `convolution` does the same with
    ``transpose_and_flip_weights=True``.

    Parameters
    ----------
    weights : array_like [Co, Ci, kernel...] or [G, Co, Ci, kernel...]
        Of one group, or with an axis of groups in front.
    field_dims : int, optional
        Dimensions of the kernel (default 2, as in PopLibs).

    Returns
    -------
    numpy.ndarray [Ci, Co, kernel...] or [G, Ci, Co, kernel...]

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> poplin.weights_transpose_chans_flip_xy(np.arange(4, dtype=np.float32).reshape(2, 1, 2), field_dims=1)
    array([[[1., 0.],
            [3., 2.]]], dtype=float32)
    """
    array = operand("weights", weights).array
    dims = whole("field_dims", field_dims, 0)
    check_shape("weights", array, array.ndim in (2 + dims, 3 + dims),
                f"output and input channels, then {dims} dimensions of the kernel (field_dims), perhaps "
                f"groups in front")
    channels = array.ndim - dims
    turned: Array = np.flip(array.swapaxes(channels - 2, channels - 1), tuple(range(channels, array.ndim)))
    return turned
