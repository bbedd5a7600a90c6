"""What torch makes of the ops: its own checks, graphs with batches of any size, exported programs, compiled ones."""

from __future__ import annotations

import io
import shutil
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

from poplibs_py.torch import (  # noqa: E402
    BlockSparseLinear,
    BlockSparseTensor,
    bs_softmax,
    cast,
    matmul,
    round_to,
    sampled_matmul,
    sparse_dense_matmul,
)
from poplibs_py.torch._library import REGISTERED  # noqa: E402


def pattern() -> Any:
    return BlockSparseTensor.from_dense(torch.rand(24, 40), 8, density=0.5)


def samples() -> dict[str, list[tuple[Any, ...]]]:
    """Calls of each op, with and without what it may leave out."""
    w = pattern()
    blocks, index = w.blocks.requires_grad_(), w[1:]
    grouped = BlockSparseTensor.from_dense(torch.rand(2, 8, 6), 2)

    def leaf(*shape: int) -> Any:
        return torch.randn(shape, requires_grad=True)

    return {
        "dense_sparse_matmul": [(leaf(3, 24), blocks, *index),
                                (leaf(2, 3, 40), blocks, *index, True, leaf(24), torch.bfloat16),
                                (leaf(2, 3, 8), grouped.blocks.requires_grad_(), *grouped[1:], False, leaf(2, 6))],
        "sparse_dense_matmul": [(leaf(40, 3), blocks, *index), (leaf(24), blocks, *index, True, leaf(40))],
        "sampled_matmul": [(leaf(24, 5), leaf(5, 40), *index, 8, 8),
                           (leaf(24, 5), leaf(5, 40), *index, 8, 8, torch.float16)],
        "bs_softmax": [(blocks, *index), (blocks, *index, "zero_upper_triangle")],
        "bs_softmax_grad": [(blocks.detach(), torch.randn(blocks.shape), *index)],
        "matmul": [(leaf(3, 4), leaf(4, 5)), (leaf(2, 3, 4), leaf(4, 5), leaf(5), torch.float16)],
        "cast": [(leaf(7), torch.bfloat16), (leaf(7), torch.float16, 0, 0, "toward-zero", "saturate")],
        "round_to": [(leaf(7), "e4m3"), (leaf(7), "f143", 0, True, "stochastic", "saturate", 5)],
    }


@pytest.mark.parametrize("name", sorted(samples()))
def test_torch_s_own_checks_pass(name: str) -> None:
    assert set(samples()) == set(REGISTERED)
    op = getattr(torch.ops.poplibs_py, name).default
    for arguments in samples()[name]:
        assert set(opcheck(op, arguments).values()) == {"SUCCESS"}


class Model(torch.nn.Module):
    """A layer and attention over it, with a cast on the way."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.layer = BlockSparseLinear(40, 24, 8, 0.5, bias=bias)
        w = pattern()
        self.register_buffer("row_offsets", w.row_offsets)
        self.register_buffer("column_indices", w.column_indices)

    def forward(self, x: Any) -> Any:
        y = round_to(torch.relu(self.layer(x)), "e4m3", scale="auto")
        blocks = torch.zeros(self.column_indices.shape[0], 8, 8)
        place = BlockSparseTensor(blocks, self.row_offsets, self.column_indices, 24, 40)
        weights = bs_softmax(sampled_matmul(y.T, x, place))
        return matmul(cast(y, torch.bfloat16), sparse_dense_matmul(weights, x.T), out_dtype=torch.float32)


def gradients(model: Any, x: Any) -> list[Any]:
    model.zero_grad()
    model(x).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def check_compiled(backend: str, bias: bool = True) -> None:
    torch._dynamo.reset()
    model = Model(bias)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for rows in (3, 8, 17):
        x = torch.randn(rows, 40)
        assert torch.equal(compiled(x), model(x))
        assert all(torch.equal(one, other)
                   for one, other in zip(gradients(compiled, x), gradients(model, x), strict=True))
    with torch.inference_mode():
        assert torch.equal(compiled(x), model(x))


def test_graphs_without_breaks_and_with_batches_of_any_size() -> None:
    check_compiled("aot_eager")


def test_exported_programs_keep_the_op_and_the_batch_open() -> None:
    model = BlockSparseLinear(40, 24, 8, 0.5)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (torch.randn(4, 40),), dynamic_shapes={"x": {0: batch}})
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert any("poplibs_py.dense_sparse_matmul" in str(node.target) for node in loaded.graph.nodes)
    x = torch.randn(9, 40)
    assert torch.equal(loaded.module()(x), model(x))


@pytest.mark.nightly
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_inductor_compiles_them() -> None:
    check_compiled("inductor", bias=False)  # whose gradient torch sums, in another order there
