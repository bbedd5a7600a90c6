"""Every way to get a layer's three passes from the peers, behind one face.

torch has all three, in both orders of channels and with weights reordered before. onnxruntime and OpenVINO infer: they
have the forward pass alone. zentorch adds no convolution to torch's.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...checks import instance
from ...formats import Array
from .routes import Route, to_torch

PASSES = ("forward", "data gradient", "weight gradient")


def convolution_routes(x: Array, weights: Array, deltas: Array, *, stride: int = 1, padding: int = 0, dilation: int = 1,
                       groups: int = 1) -> dict[str, list[Route]]:
    """Ways to compute each pass of a layer, one thread each.

    float16 goes to torch as it is and through FP32, with weights that stay FP32 in the forward pass, as a user would
    hold them; so does bfloat16 on a CPU for which oneDNN has none. The order of axes of results is that of their
    operands, [N, C, field...] and [Co, Ci, kernel...].

    Parameters
    ----------
    x, weights, deltas : array, [N, C, field...], [Co, C / groups, kernel...], [N, Co, field...]
        C-contiguous, of one dtype.
    stride, padding, dilation, groups : int, optional
        Of every field dimension.

    Returns
    -------
    dict of list of Route
        By pass, one of `PASSES`; lists are empty where no peer is installed.
    """
    for operand, what in ((x, "x"), (weights, "weights"), (deltas, "deltas")):
        instance(what, operand, np.ndarray, "an array")
    found: dict[str, list[Route]] = {name: [] for name in PASSES}
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if importlib.util.find_spec("torch"):
        for name, route in _torch(x, weights, deltas, how):
            found[name].append(route)
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx") and x.dtype != "bfloat16":
        found["forward"].append(_onnxruntime(x, weights, how))
    if importlib.util.find_spec("openvino") and x.dtype == np.float32 and x.ndim > 3:
        found["forward"].append(_openvino(x, weights, how))
    return found


def _torch(x: Array, weights: Array, deltas: Array, how: dict[str, int]) -> Iterator[tuple[str, Route]]:
    """torch's passes in each order of channels, with weights reordered before, and what oneDNN lacks through FP32."""
    import torch

    name, ndim = x.dtype.name, x.ndim - 2
    steps = [how["stride"]] * ndim, [how["padding"]] * ndim, [how["dilation"]] * ndim
    rest = (None, *steps, False, [0] * ndim, how["groups"])
    native = name == "float32" or (name == "bfloat16" and torch.ops.mkldnn._is_mkldnn_bf16_supported())
    wide = [] if native else [torch.float32]
    orders = {"NCHW": torch.contiguous_format} | {
        2: {"NHWC": torch.channels_last}, 3: {"NHWC": torch.channels_last_3d}}.get(ndim, {})
    for dtype in [getattr(torch, name), *wide]:
        for order, memory in orders.items():
            tensors = [to_torch(array, getattr(torch, name)).contiguous(memory_format=memory)
                       for array in (x, weights, deltas)]
            tx, tw, td = tensors
            def through(call: Any, *given: Any, dtype: Any = dtype, cast: bool = dtype in wide) -> Any:
                return call(*(tensor.to(dtype) for tensor in given)).to(given[0].dtype) if cast else call(*given)

            kept = tw.to(dtype)

            def forward(a: Any, w: Any = kept) -> Any:
                return torch.ops.aten.convolution(a, w, *rest)

            def backward(mask: list[bool], which: int, d: Any, a: Any, w: Any) -> Any:
                return torch.ops.aten.convolution_backward(d, a, w, *rest, mask)[which]

            label = "through FP32, " * (dtype in wide) + order
            yield PASSES[0], Route("torch", label, name, partial(through, forward, tx))
            for which in (0, 1):
                run = partial(through, partial(backward, [which == 0, which == 1, False], which), td, tx, tw)
                yield PASSES[1 + which], Route("torch", label, name, run)
    if ndim == 2 and native:  # with the weights in oneDNN's own order
        tx, tw = (to_torch(array, getattr(torch, name)).contiguous(memory_format=torch.channels_last)
                  for array in (x, weights))
        packed = torch.ops.mkldnn._reorder_convolution_weight(tw, steps[1], steps[0], steps[2], how["groups"],
                                                              list(x.shape))
        run = partial(torch.ops.mkldnn._convolution_pointwise, tx, packed, None, steps[1], steps[0], steps[2],
                      how["groups"], "none", [], "")
        yield PASSES[0], Route("torch", "NHWC, packed", name, run)


def _onnxruntime(x: Array, weights: Array, how: dict[str, int]) -> Route:
    """A model of one node, its weights an initializer."""
    import onnx
    import onnxruntime

    kind, ndim = onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.ndim - 2
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], group=how["groups"], strides=[how["stride"]] * ndim,
                                 pads=[how["padding"]] * 2 * ndim, dilations=[how["dilation"]] * ndim)
    given = onnx.helper.make_tensor_value_info("x", kind, x.shape)
    made = onnx.helper.make_tensor_value_info("y", kind, [None] * x.ndim)
    graph = onnx.helper.make_graph([node], "layer", [given], [made], [onnx.numpy_helper.from_array(weights, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run() -> Any:
        return session.run(None, {"x": x})[0]

    return Route("onnxruntime", "NCHW", x.dtype.name, run)


def _openvino(x: Array, weights: Array, how: dict[str, int]) -> Route:
    """A compiled model of one node, its weights a constant."""
    import openvino
    from openvino import opset13

    ndim, groups = x.ndim - 2, how["groups"]
    sides = [[how[name]] * ndim for name in ("stride", "padding", "padding", "dilation")]
    given = opset13.parameter(list(x.shape), np.float32)
    if groups > 1:
        grouped = weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])
        made = opset13.group_convolution(given, opset13.constant(grouped), *sides)
    else:
        made = opset13.convolution(given, opset13.constant(weights), *sides)
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
                "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(openvino.Model([made], [given]), "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

    def run() -> Any:
        request.infer()
        return request.get_output_tensor().data

    return Route("openvino", "NCHW", "float32", run)
