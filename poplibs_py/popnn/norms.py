"""PopNN's norms and their gradients: layer, RMS, group, instance and batch norm.

A norm takes from numbers that share statistics their mean, divides by their deviation, scales by gamma and shifts by
beta. Numbers are FP32 from the operand on and rounded once at the end. Sums are those of `poplibs_py.popnn.softmax`;
where a channel has its gamma, of each field, and these are added in float64: all levels, thread counts and strides give
the same bits. The bodies are in ``src_cython/kernels/rows/norm.h``, of channels last in ``columns.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from ..checks import check_shape, finite, flag, whole
from ..errors import bad_argument
from ..formats import FP32, Format
from ..kernels import select
from ..ops import Operand, Receiver, Request, axes_of, one_scale_operand, op, receive, result_format
from ..ops.parts import Part, part_format, results
from ..ops.record import Function
from ..poplin.norms import bessel
from ..target import TargetLike
from .rows.modelled import place_of_norm
from .rows.params import EACH_SEGMENT, RowOperand, RowsParams
from .rows.request import repeated, row_of, rows_request


class NormGradients(NamedTuple):
    """What gradients of norms return: with respect to the operand, to gamma and to beta."""

    x_grad: Any
    gamma_grad: Any
    beta_grad: Any


_HEAD = """
    Parameters
    ----------
"""
_NUMBERS = "float32, float16, bfloat16 or FP8 numbers, of any strides"
_X = f"""    x : array_like or QuarterArray {{shape}}
        {_NUMBERS}. Lists become float32.
"""
_PARAMS = """    gamma, beta : array_like {shape}, optional
        Scale and shift.
"""
_GRAD = """    grad : array_like or QuarterArray
        The gradient with respect to the result, of the shape of `x`.
"""
_GAMMA = """    gamma : array_like {shape}, optional
        Scale.
"""
_EPS = """    eps : float, optional
        Added to the {what}; not negative.
"""
_UNBIASED = """    unbiased_var_estimate : bool, optional
        Whether the variance and `eps` are multiplied by n / (n - 1), as PopLibs does.
"""
_EXACT = """    poplibs_exact : bool, optional
        Whether the gradient takes no notice of that, as PopLibs'; by default it is the true derivative.
"""
_OUT = """    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap the operands.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: what the operands' formats give.
"""
_OUTS = """    out : tuple of three arrays or QuarterArrays, optional
        Where the results go, each in its own format: for instance BF16 for `x`, FP32 for a gamma of FP32.
    out_dtype : Format, dtype or str, optional
        float32, float16, bfloat16 or FP8, of all three; by default those of `out`, or what the operands' formats give.
"""
_Y = """
    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape of `x`.
"""
_GRADS = """
    Returns
    -------
    x_grad, gamma_grad, beta_grad : numpy.ndarray
        Gradients with respect to `x`, laid out as it is, and to scale and shift, whether it has them or not.
"""

_AXES = """    axes : int or sequence of int, optional
        Along which statistics are taken; the last by default.
"""
_GROUPS = """    groups : int
        Into which the channels are divided.
"""
_ORDER = """    strided_channel_grouping : bool, optional
        Whether channel c belongs to group c modulo `groups`, as PopLibs' documents have it; by default, as its code has
        it, to group c divided by the channels of a group.
"""


def _norm_op(poplibs: str, shape: str, of_params: str, *own: str, what: str = "variance",
             unbiased: bool = True) -> Callable[[Function], Function]:
    """Make a function the face of an op. What several share goes into its docstring."""
    def make(function: Function) -> Function:
        back = function.__name__.endswith("_grad")
        middle = _X.format(shape=shape) + "".join(own[:1])
        params = _GAMMA if back else _PARAMS if unbiased or what == "variance" else _GAMMA
        middle = (_GRAD if back else "") + middle + params.format(shape=of_params) + "".join(own[1:])
        middle += _EPS.format(what=what) + _UNBIASED * unbiased + _EXACT * (unbiased and back)
        last = _OUTS + _GRADS if back else _OUT + _Y
        return op(poplibs, bound="popnn.norm_bound", draws="testing.row_calls", written=None if back else "out",
                  shared=_HEAD + middle + last, by=_described)(function)

    return make


@dataclass(frozen=True)
class Layout:
    """How an operand is seen so that statistics are along axes of it.

    Attributes
    ----------
    shape : tuple of int
        That it is seen in: axes are split at most.
    axes : tuple of int
        Along which statistics are taken.
    params : tuple of int
        Of gamma and beta, whose axes are those that are not 1 there.
    own : tuple of int
        The shape that callers give these in.
    segments : int or None
        The axis of `axes` that is not of the field, if both are there: sums of the field are added along it.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    params: tuple[int, ...]
    own: tuple[int, ...]
    segments: int | None = None


def along(shape: tuple[int, ...], axes: Any = -1) -> Layout:
    """Layer and RMS norm: statistics along axes, and a gamma for each element there."""
    found = axes_of(axes, len(shape), "axes")
    params = tuple(n if d in found else 1 for d, n in enumerate(shape))
    return Layout(shape, found, params, tuple(shape[d] for d in found))


def grouped(shape: tuple[int, ...], groups: Any, strided_channel_grouping: Any = False) -> Layout:
    """Group norm: statistics of a sample's group of channels, and a gamma for each channel."""
    batch, channels, *field = shape
    groups, strided = whole("groups", groups, 1, max(1, channels)), flag(_STRIDED, strided_channel_grouping)
    if channels % groups:
        raise bad_argument("groups", groups, f"a divisor of {channels}, the number of channels")
    each = channels // groups
    split = (each, groups) if strided else (groups, each)
    own = 1 if strided else 2
    axes = (own, *range(3, 3 + len(field)))
    return Layout((batch, *split, *field), axes, (1, *split, *(1,) * len(field)), (channels,),
                  None if prod(field) == 1 else own)


def by_channel(shape: tuple[int, ...]) -> Layout:
    """Instance norm: statistics of a sample's channel."""
    return grouped(shape, max(1, shape[1]))


def batched(shape: tuple[int, ...]) -> Layout:
    """Batch norm: statistics of a channel over the batch and the field."""
    params = (1, shape[1], *(1,) * (len(shape) - 2))
    return Layout(shape, (0, *range(2, len(shape))), params, shape[1:2], None if prod(shape[2:]) == 1 else 0)


_LAYOUTS: dict[str, Callable[..., Layout]] = {
    "layer": along, "rms": along, "group": grouped, "instance": by_channel, "batch": batched}
_STRIDED = "strided_channel_grouping"


def laid_out(name: str, shape: tuple[int, ...], given: dict[str, Any]) -> tuple[Layout, bool]:
    """Return the layout of a call by its op's name and the arguments that say it, which are taken out of those given;
    and whether a mean is taken away."""
    kind = name.partition("_")[0]
    said = {key: given.pop(key) for key in ("axes", "groups", _STRIDED) if key in given}
    return _LAYOUTS[kind](shape, **said), kind != "rms"


def one_for_row(layout: Layout) -> bool:
    """Whether each row has its gamma alone."""
    return layout.params == tuple(1 if d in layout.axes else n for d, n in enumerate(layout.shape))


def one_for_place(layout: Layout) -> bool:
    """Whether each place of a row has its gamma, the same in all rows."""
    return layout.params == tuple(n if d in layout.axes else 1 for d, n in enumerate(layout.shape))


def of_gradients(layout: Layout) -> Layout:
    """How a gradient's sums are taken: where it is neither, by segments even of single elements."""
    as_forward = layout.segments is not None or one_for_row(layout) or one_for_place(layout)
    return layout if as_forward else replace(layout, segments=layout.axes[0])


def _seen(x: Operand, layout: Layout) -> Operand:
    return x.seen(lambda array: array.reshape(layout.shape))


def _param(name: str, value: Any, layout: Layout) -> Operand | None:
    if value is None:
        return None
    x = one_scale_operand(name, value)
    check_shape(name, x, x.shape == layout.own, f"shape {layout.own}")
    return x


def _row_of_param(x: Operand | None, number: int, layout: Layout) -> RowOperand | None:
    if x is None:
        return None
    different = [d for d in layout.axes if layout.params[d] != 1]
    single = EACH_SEGMENT if different == [layout.segments] else not different
    return row_of(x.seen(lambda array: array.reshape(layout.params)), number, layout.shape, single)


def _described(name: str, /, x: Any, unbiased_var_estimate: Any = False, **given: Any) -> Request:
    """Describe a call of a norm, or of its gradients, as its face was called."""
    read = one_scale_operand("x", x)
    by_axes = "axes" in given
    check_shape("x", read, len(read.shape) > (not by_axes), "an axis or more" if by_axes else "activations [N, C, ...]")
    layout, centred = laid_out(name, read.shape, given)
    factor = bessel(prod(layout.shape[d] for d in layout.axes), flag("unbiased_var_estimate", unbiased_var_estimate))
    return (_backward if name.endswith("_grad") else _forward)(name, read, layout, centred, factor, **given)


def _mode(centred: bool) -> str:
    return "centred" if centred else ""


def _forward(name: str, x: Operand, layout: Layout, centred: bool, factor: float, *, gamma: Any, beta: Any = None,
             eps: Any, out: Any, out_dtype: object, target: Any) -> Request:
    scale, shift, small = _param("gamma", gamma, layout), _param("beta", beta, layout), finite("eps", eps, 0.0, 3e38)
    operands = [p for p in (x, scale, shift) if p is not None]
    receiver = receive("out", out, x.shape, out_dtype, result_format(*operands), like=x.array)
    assert isinstance(receiver.format, Format)
    placed = place_of_norm(name, target, operands, receiver.format, layout.shape, layout.axes, layout.params)
    written = receiver.array.reshape(layout.shape)
    rows = (row_of(_seen(x, layout), 0, layout.shape), _row_of_param(scale, 1, layout),
            _row_of_param(shift, len(operands) - 1, layout),
            RowOperand(len(operands), receiver.format, written.strides, receiver.scale, written=True))
    params = RowsParams("norm", layout.shape, layout.axes, rows, len(operands) + 1, epsilon=small, factor=factor,
                        mode=_mode(centred), segments=layout.segments)
    return rows_request((params,), tuple(operands), receiver, placed)


def _backward(name: str, x: Operand, layout: Layout, centred: bool, factor: float, *, grad: Any, gamma: Any, eps: Any,
              out: Any, out_dtype: object, target: Any, poplibs_exact: Any = False) -> Request:
    g, scale, small = one_scale_operand("grad", grad), _param("gamma", gamma, layout), finite("eps", eps, 0.0, 3e38)
    check_shape("grad", g, g.shape == x.shape, f"that of x, {x.shape}")
    operands = [p for p in (g, x, scale) if p is not None]
    fmt = part_format(out_dtype, *operands)
    parts = Part(x.shape, fmt, x.array, strided=True), Part(layout.own, fmt), Part(layout.own, fmt)
    made = results(out, parts, NormGradients, own="", out_dtype=out_dtype)
    in_grad, *sums = made.receivers(parts)
    assert isinstance(in_grad.format, Format)
    result = RowOperand(len(operands), in_grad.format, in_grad.array.reshape(layout.shape).strides, in_grad.scale,
                        written=True)
    placed = place_of_norm(name, target, operands, in_grad.format, layout.shape, layout.axes, layout.params)
    program, workspace = _gradients(g, x, scale, result, sums, layout, {
        "epsilon": small, "mode": _mode(centred), "factor": factor,
        "scale": 1.0 if flag("poplibs_exact", poplibs_exact) else factor})
    return rows_request(program, tuple(operands), made, placed, workspace)


def _gradients(g: Operand, x: Operand, gamma: Operand | None, to: RowOperand, sums: list[Receiver], layout: Layout,
               shared: dict[str, Any]) -> tuple[tuple[RowsParams, ...], int]:
    """The gradient's steps, and how many bytes of workspace they need.

    Where each row has its gamma, its sums are gamma's and beta's gradients. Where each place of a row has, blocks of
    rows are added as they pass, and blocks then. Else it is a row's segments that have, whose sums are added then.
    `to` is the first of three results, behind which the workspace is; `sums` receive the others.
    """
    shape, axes, params, layout, room = layout.shape, layout.axes, layout.params, of_gradients(layout), to.operand + 3
    first = (row_of(_seen(g, layout), 0, shape), row_of(_seen(x, layout), 1, shape),
             _row_of_param(gamma, 2, layout), to)

    def step(body: str, more: tuple[RowOperand | None, ...]) -> RowsParams:
        return RowsParams(body, shape, axes, (*first, *more), room, segments=layout.segments, **shared)

    def added(parts: int, n: int) -> RowsParams:
        """Sums of parts, n of one kind and n of the other each."""
        seen = [RowOperand(room, FP32, (8 * n, 4), offset=4 * k * n) for k in range(2)]
        return RowsParams("block_sums", (parts, n), (0,), (*seen, *summed((1, n))), room)

    def summed(own: tuple[int, ...]) -> tuple[RowOperand, ...]:
        """Results beside the first, of such lengths along the rows' axes."""
        return tuple(RowOperand(number, x.format, repeated(own, x.array.itemsize), x.scale, single=True, written=True)
                     for number, x in enumerate(sums, to.operand + 1))

    if one_for_row(layout):
        return (step("norm_grad", (None, None, *summed(params))),), 0
    partial = RowOperand(room, FP32, (0,) * len(shape), single=True, written=True)
    if one_for_place(layout):
        n, rows = prod(params), prod(n for d, n in enumerate(shape) if d not in axes)
        blocks = -(-rows // select("rows", "norm_grad_blocks", FP32.name).kernel.block[1])
        return (step("norm_grad_blocks", (partial,)), added(blocks, n)), 8 * blocks * n
    n, steps = layout.own[0], repeated(params, 4)
    partial = partial._replace(strides=(8 * n, *steps[1:]), single=EACH_SEGMENT)
    parts = (partial, partial._replace(offset=4 * n))
    return (step("norm_grad", parts), added(shape[0], n)), 8 * shape[0] * n


@_norm_op("", "[...]", "[those of the axes]", "", _AXES, unbiased=False)
def layer_norm(x: Any, gamma: Any = None, beta: Any = None, axes: Any = -1, *, eps: float = 1e-5, out: Any = None,
               out_dtype: object = None, target: TargetLike = None) -> Any:
    """Layer norm: each element less the mean along axes, over the deviation there, times gamma plus beta.

    A gamma for each element, as torch has it. PopLibs' ``popnn::ln``, with one for each channel, is `group_norm` of one
    group.

    Examples
    --------
    >>> popnn.layer_norm([[1.0, 3.0], [2.0, 2.0]])
    array([[-0.999995,  0.999995],
           [ 0.      ,  0.      ]], dtype=float32)
    """


@_norm_op("", "[...]", "[those of the axes]", "", _AXES, unbiased=False)
def layer_norm_grad(grad: Any, x: Any, gamma: Any = None, axes: Any = -1, *, eps: float = 1e-5, out: Any = None,
                    out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradients of `layer_norm`.

    Statistics are computed anew.

    Examples
    --------
    >>> popnn.layer_norm_grad([[1.0, 0.0]], [[1.0, 3.0]]).beta_grad
    array([1., 0.], dtype=float32)
    """


@_norm_op("", "[...]", "[those of the axes]", "", _AXES, what="mean square", unbiased=False)
def rms_norm(x: Any, gamma: Any = None, axes: Any = -1, *, eps: float = 1e-5, out: Any = None,
             out_dtype: object = None, target: TargetLike = None) -> Any:
    """RMS norm: each element over the root of the mean square along axes, times gamma.

    PopLibs has none.

    Examples
    --------
    >>> popnn.rms_norm([[1.0, 7.0]], eps=0.0)
    array([[0.2, 1.4]], dtype=float32)
    """


@_norm_op("", "[...]", "[those of the axes]", "", _AXES, what="mean square", unbiased=False)
def rms_norm_grad(grad: Any, x: Any, gamma: Any = None, axes: Any = -1, *, eps: float = 1e-5, out: Any = None,
                  out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradients of `rms_norm`.

    Its third is that of what would be added.

    Examples
    --------
    >>> popnn.rms_norm_grad([[1.0, 0.0]], [[1.0, 7.0]]).gamma_grad
    array([0.19999996, 0.        ], dtype=float32)
    """


@_norm_op("popnn::gn::groupNormalise", "[N, C, ...]", "[C]", _GROUPS, _ORDER)
def group_norm(x: Any, groups: int, gamma: Any = None, beta: Any = None, *, strided_channel_grouping: bool = False,
               eps: float = 1e-5, unbiased_var_estimate: bool = False, out: Any = None, out_dtype: object = None,
               target: TargetLike = None) -> Any:
    """Group norm: statistics of each sample and group of channels (``popnn::gn::groupNormalise``).

    One group is PopLibs' layer norm, ``popnn::ln``; as many as channels `instance_norm`.

    Examples
    --------
    >>> popnn.group_norm([[1.0, 3.0, 2.0, 2.0]], 2)
    array([[-0.999995,  0.999995,  0.      ,  0.      ]], dtype=float32)
    """


@_norm_op("popnn::gn::groupNormGradients", "[N, C, ...]", "[C]", _GROUPS, _ORDER)
def group_norm_grad(grad: Any, x: Any, groups: int, gamma: Any = None, *, strided_channel_grouping: bool = False,
                    eps: float = 1e-5, unbiased_var_estimate: bool = False, poplibs_exact: bool = False,
                    out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradients of `group_norm` (``popnn::gn::groupNormGradients``, ``groupNormParamGradients``).

    Statistics are computed anew.

    Examples
    --------
    >>> popnn.group_norm_grad([[1.0, 0.0, 2.0, 0.0]], [[1.0, 3.0, 2.0, 2.0]], 2).beta_grad
    array([1., 0., 2., 0.], dtype=float32)
    """


@_norm_op("popnn::in::instanceNormalise", "[N, C, ...]", "[C]", "")
def instance_norm(x: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5,
                  unbiased_var_estimate: bool = False, out: Any = None, out_dtype: object = None,
                  target: TargetLike = None) -> Any:
    """Instance norm: statistics of each sample and channel (``popnn::in::instanceNormalise``).

    `group_norm` of as many groups as channels.

    Examples
    --------
    >>> popnn.instance_norm([[[1.0, 3.0], [2.0, 2.0]]])
    array([[[-0.999995,  0.999995],
            [ 0.      ,  0.      ]]], dtype=float32)
    """


@_norm_op("popnn::in::instanceNormGradients", "[N, C, ...]", "[C]", "")
def instance_norm_grad(grad: Any, x: Any, gamma: Any = None, *, eps: float = 1e-5,
                       unbiased_var_estimate: bool = False, poplibs_exact: bool = False, out: Any = None,
                       out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradients of `instance_norm` (``popnn::in::instanceNormGradients``, ``instanceNormParamGradients``).

    Statistics are computed anew.

    Examples
    --------
    >>> popnn.instance_norm_grad([[[1.0, 0.0], [2.0, 0.0]]], [[[1.0, 3.0], [2.0, 2.0]]]).beta_grad
    array([1., 2.], dtype=float32)
    """


@_norm_op("popnn::bn::batchNormalise", "[N, C, ...]", "[C]", "")
def batch_norm(x: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5, unbiased_var_estimate: bool = False,
               out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Batch norm: statistics of each channel over the batch and the field (``popnn::bn::batchNormalise``).

    It keeps no running statistics.

    Examples
    --------
    >>> popnn.batch_norm([[[1.0, 3.0], [2.0, 2.0]]])
    array([[[-0.999995,  0.999995],
            [ 0.      ,  0.      ]]], dtype=float32)
    """


@_norm_op("popnn::bn::batchNormGradients", "[N, C, ...]", "[C]", "")
def batch_norm_grad(grad: Any, x: Any, gamma: Any = None, *, eps: float = 1e-5, unbiased_var_estimate: bool = False,
                    poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
                    target: TargetLike = None) -> Any:
    """Gradients of `batch_norm` (``popnn::bn::batchNormGradients``, ``batchNormParamGradients``).

    Statistics are computed anew.

    Examples
    --------
    >>> popnn.batch_norm_grad([[[1.0, 0.0], [2.0, 0.0]]], [[[1.0, 3.0], [2.0, 2.0]]]).beta_grad
    array([1., 2.], dtype=float32)
    """
