"""One node of onnxruntime as a peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest


def onnxruntime_node(kind: str, xs: Sequence[Any], weights: Mapping[str, Any] | None = None, out: Any = None,
                     results: int = 1, **attributes: Any) -> Callable[[], object]:
    """Return a call on one thread, whose weights were packed; results stay where onnxruntime has them, or go to `out`.
    """
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    make, held = onnx.helper, weights or {}
    given, made = [f"x{i}" for i in range(len(xs))], [f"y{i}" for i in range(results)]
    graph = make.make_graph(
        [make.make_node(kind, [*given, *held], made, **attributes)], "node",
        [make.make_tensor_value_info(name, make.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for name, x in zip(given, xs, strict=True)],
        [make.make_empty_tensor_value_info(name) for name in made],
        [onnx.numpy_helper.from_array(w, name) for name, w in held.items()])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, x in zip(given, xs, strict=True):
        binding.bind_cpu_input(name, x)
    for name in made:
        binding.bind_output(name, *(() if out is None else ("cpu", 0, out.dtype, out.shape, out.ctypes.data)))

    def run() -> object:
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return run
