"""One node of onnxruntime as a peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest


def onnxruntime_node(kind: str, x: Any, weights: Mapping[str, Any], **attributes: Any) -> Callable[[], object]:
    """Return a call on one thread, whose weights were packed and whose result stays where onnxruntime has it."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    make = onnx.helper
    of = make.np_dtype_to_tensor_dtype(x.dtype)
    graph = make.make_graph(
        [make.make_node(kind, ["x", *weights], ["y"], **attributes)], "node",
        [make.make_tensor_value_info("x", of, x.shape)], [make.make_tensor_value_info("y", of, None)],
        [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")

    def run() -> object:
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return run
