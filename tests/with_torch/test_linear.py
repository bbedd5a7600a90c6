"""The layer: its state, its forms, pruning and regrowth."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError  # noqa: E402
from poplibs_py.popsparse import BlockSparseMatrix, random_pattern  # noqa: E402
from poplibs_py.torch import BlockSparseLinear, BlockSparseTensor, round_to  # noqa: E402


def layer(**how: Any) -> Any:
    return BlockSparseLinear(40, 24, 8, 0.5, **how)


def stepped(module: Any, x: Any, optimiser: Any) -> float:
    loss = module(x).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_a_dense_layer_of_the_same_weights_gives_the_same(bias: bool, dtype: Any) -> None:
    made = layer(bias=bias, dtype=dtype)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape))
    x = torch.randint(-1, 2, (3, 40)).to(dtype)
    y = made(x)
    assert y.dtype is dtype
    assert torch.equal(y, made.to_linear()(x))


def test_torch_decides_which_blocks_and_values_there_are() -> None:
    torch.manual_seed(5)
    one = layer()
    torch.manual_seed(5)
    other = layer()
    assert one.pattern == other.pattern
    assert torch.equal(one.blocks, other.blocks)
    assert layer(seed=(1, 2)).pattern == random_pattern(24, 40, 8, 0.5, 1 + 2**33)
    limit = 1 / (40 * len(one.blocks) / 15) ** 0.5
    assert one.blocks.abs().max() <= limit < 2 * one.blocks.abs().max()


@pytest.mark.parametrize("density", [None, 0.3])
def test_a_dense_layer_is_pruned_by_norm(density: float | None) -> None:
    linear = torch.nn.Linear(40, 20)
    with torch.no_grad():
        linear.weight[:8, :8] = 0
    made = BlockSparseLinear.from_linear(linear, 8, density=density)
    want = BlockSparseMatrix.from_dense(linear.weight.detach().numpy(), 8, density=density)
    assert np.array_equal(made.to_dense().detach().numpy(), want.to_dense())
    assert torch.equal(made.bias, linear.bias)
    assert made.blocks.data_ptr() != linear.weight.data_ptr()
    assert made.density == want.density


def test_the_state_holds_the_pattern_and_brings_it_along() -> None:
    source, target = layer(seed=1), BlockSparseLinear(40, 24, 8, 0.2, seed=2)
    x = torch.randn(3, 40)
    target(x).sum().backward()
    parameter = target.blocks
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    assert target.load_state_dict(torch.load(file, weights_only=True)).missing_keys == []
    assert target.blocks is parameter
    assert parameter.grad is None
    assert torch.equal(source(x), target(x))
    assert target.pattern == source.pattern


def test_states_that_do_not_fit_are_refused_and_change_nothing() -> None:
    made, state = layer(seed=1), layer(seed=2).state_dict()
    before = copy.deepcopy(made.state_dict())
    for name, value, message in [("blocks", torch.ones(8, 4, 8), "blocks: got shape"),
                                 ("blocks", torch.ones(3, 8, 8), "blocks: got 3 blocks"),
                                 ("column_indices", torch.full((8,), 9, dtype=torch.int32), "column_indices: got"),
                                 ("row_offsets", torch.zeros(2, dtype=torch.int64), "row_offsets: got")]:
        with pytest.raises(RuntimeError, match=message):
            made.load_state_dict({**state, name: value})
    assert all(torch.equal(value, made.state_dict()[name]) for name, value in before.items())


def test_a_layer_is_copied_and_pickled_after_use() -> None:
    made, x = layer(), torch.randn(3, 40)
    y = made(x)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    for other in (copy.deepcopy(made), torch.load(file, weights_only=False)):
        assert torch.equal(other(x), y)
    assert made.to(torch.bfloat16)(x.bfloat16()).dtype is torch.bfloat16


def test_pruning_keeps_the_largest_blocks_and_their_momentum() -> None:
    made, x = layer(bias=False), torch.randn(16, 40)
    optimiser = torch.optim.Adam(made.parameters(), lr=0.01)
    stepped(made, x, optimiser)
    dense, count = made.to_dense().detach(), len(made.blocks)
    norms, momentum = made.blocks.detach().square().sum((1, 2)), optimiser.state[made.blocks]["exp_avg"].clone()
    kept = norms.argsort(descending=True)[:3].sort().values
    made.prune(0.2, optimizer=optimiser)
    assert len(made.blocks) == 3 < count
    assert torch.equal(optimiser.state[made.blocks]["exp_avg"], momentum[kept])
    pruned = made.to_dense().detach()
    assert torch.equal(pruned, torch.where(pruned != 0, dense, 0))
    assert torch.equal(made.blocks.detach().square().sum((1, 2)), norms[kept])
    stepped(made, x, optimiser)
    with pytest.raises(InvalidArgumentError, match=r"^density: got"):
        made.prune(0.9)


def test_regrown_blocks_begin_with_zeros_and_learn() -> None:
    made, x = layer(seed=3), torch.randn(16, 40)
    optimiser = torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
    stepped(made, x, optimiser)
    dense, momentum = made.to_dense().detach(), optimiser.state[made.blocks]["momentum_buffer"]
    total = momentum.sum()
    y = made(x)
    scores = torch.zeros(3, 5)
    free = ~BlockSparseTensor.from_pattern(made.pattern, torch.ones_like(made.blocks)).to_dense()[::8, ::8].bool()
    place = free.nonzero()[-1]
    scores[tuple(place)] = 1
    made.regrow(0.6, scores=scores, optimizer=optimiser)
    assert len(made.blocks) == 9
    assert torch.equal(made.to_dense(), dense)
    assert torch.equal(made(x), y)
    del y  # a graph that lives knows the blocks as they were
    assert torch.allclose(optimiser.state[made.blocks]["momentum_buffer"].sum(), total)
    row, column = (place * 8).tolist()
    stepped(made, x, optimiser)
    assert made.to_dense()[row:row + 8, column:column + 8].abs().min() > 0
    made.regrow(1.0, seed=4)
    assert len(made.blocks) == 15
    with pytest.raises(InvalidArgumentError, match=r"^scores: got"):
        layer().regrow(0.9, scores=torch.zeros(2, 2))
    with pytest.raises(InvalidArgumentError, match=r"^density: got"):
        made.regrow(0.5)


def test_training_in_a_narrow_format_sees_its_values() -> None:
    made, x = layer(), torch.randn(16, 40)
    optimiser = torch.optim.SGD(made.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        w = made.weight
        rounded = w._replace(blocks=round_to(w.blocks, "e4m3", scale="auto"))
        loss = (x @ rounded.to_dense().T + made.bias - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_what_does_not_fit_is_refused_by_name() -> None:
    for call, error, message in [
        (lambda: BlockSparseLinear(0, 8), InvalidArgumentError, "^in_features: got 0"),
        (lambda: BlockSparseLinear(8, 8.5), InvalidTypeError, "^out_features: got 8.5"),
        (lambda: BlockSparseLinear(8, 8, (1, 2, 3)), InvalidArgumentError, "^block_shape: got"),
        (lambda: BlockSparseLinear(8, 8, 4, 0), InvalidArgumentError, "^density: got 0"),
        (lambda: BlockSparseLinear(8, 8, pattern=3), InvalidTypeError, "^pattern: got int"),
        (lambda: BlockSparseLinear(8, 9, pattern=random_pattern(8, 8, 4, 1)), InvalidArgumentError, "^pattern: got"),
        (lambda: BlockSparseLinear(8, 8, dtype=torch.float8_e5m2), InvalidTypeError, "^dtype: got"),
        (lambda: BlockSparseLinear(8, 8, dtype=torch.float64), InvalidTypeError, "^dtype: got"),
        (lambda: BlockSparseLinear.from_linear(torch.nn.ReLU()), InvalidTypeError, "^linear: got"),
        (lambda: BlockSparseLinear.from_tensor(torch.ones(2)), InvalidTypeError, "^w: got Tensor"),
        (lambda: layer()(torch.ones(2, 39)), InvalidArgumentError, r"^x: got shape \(2, 39\); allowed: shape \(rows, "),
    ]:
        with pytest.raises(error, match=message):
            call()
