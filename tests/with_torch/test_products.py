"""The ops for torch give the bits of this library's functions, and gradients that torch would compute."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402

from poplibs_py import ops, poplin, popsparse  # noqa: E402
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError  # noqa: E402
from poplibs_py.popsparse import BlockSparseMatrix, banded_pattern, bs_softmax_grad, random_pattern, static  # noqa: E402
from poplibs_py.torch import (  # noqa: E402
    BlockSparseLinear,
    BlockSparseTensor,
    bs_softmax,
    cast,
    dense_sparse_matmul,
    matmul,
    sampled_matmul,
    sparse_dense_matmul,
)
from poplibs_py.torch._library import REGISTERED, array_of, tensor_of  # noqa: E402

FP8 = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]
WIDE = [torch.float32, torch.bfloat16, torch.float16]


def small(*shape: int, dtype: Any = torch.float32) -> Any:
    """Whole numbers so small that sums of their products are exact in every format of 16 bits."""
    return torch.randint(-1, 2, shape).to(dtype)


def sparse(rows: int, columns: int, block: Any, density: float = 0.4, groups: int = 1,
           dtype: Any = torch.float32) -> Any:
    dense = small(groups, rows, columns) if groups > 1 else small(rows, columns)
    made = BlockSparseTensor.from_dense(dense, block, density=density)
    return made._replace(blocks=made.blocks.to(dtype))


def same_bits(got: Any, want: np.ndarray) -> None:
    array = array_of("got", got)
    assert array.dtype == want.dtype
    assert array.shape == want.shape
    assert array.tobytes() == np.ascontiguousarray(want).tobytes()


def test_every_op_is_one_of_the_catalogue() -> None:
    assert set(REGISTERED) == {"dense_sparse_matmul", "sparse_dense_matmul", "sampled_matmul", "bs_softmax",
                               "bs_softmax_grad", "matmul", "cast", "round_to"}
    assert set(REGISTERED.values()) <= set(ops.catalogue)


@pytest.mark.parametrize("dtype", WIDE + FP8, ids=str)
def test_tensors_and_arrays_share_their_memory(dtype: Any) -> None:
    tensor = torch.zeros(3, 4).to(dtype)
    array = array_of("x", tensor)
    assert array.dtype.name == str(dtype).removeprefix("torch.")
    back = tensor_of(array)
    assert back.dtype is dtype
    assert back.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("dtype", WIDE + FP8, ids=str)
def test_tensors_of_any_strides_are_seen_as_they_lie(dtype: Any) -> None:
    whole = torch.arange(48.0).reshape(4, 6, 2).to(dtype)
    for tensor in (whole, whole[1:, ::2], whole.mT, whole[:, 0, 1], whole[2, 3, 1], whole[:0], whole[:, :1].mT):
        array = array_of("x", tensor)
        assert array.shape == tensor.shape
        assert array.astype(np.float32).tolist() == tensor.float().tolist()
        assert tensor_of(array).shape == tensor.shape
        assert torch.equal(tensor_of(array).float(), tensor.float())


def test_views_that_change_signs_and_tensors_without_memory() -> None:
    view = torch.arange(8).reshape(2, 4).to(torch.complex64).mul(1j).conj().imag
    assert view.is_neg()
    assert array_of("x", view).tolist() == [[0, -1, -2, -3], [-4, -5, -6, -7]]
    w = BlockSparseTensor.from_dense(torch.eye(4), 2)
    assert torch.equal(dense_sparse_matmul(view, w), view)
    assert torch.equal(dense_sparse_matmul(torch._efficientzerotensor(2, 4), w), torch.zeros(2, 4))


@pytest.mark.parametrize("dtype", WIDE + FP8, ids=str)
def test_memory_that_is_shared_lives_as_long_as_either_side(dtype: Any) -> None:
    tensor = torch.ones(3).to(dtype)
    array = array_of("x", tensor)
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    gone = weakref.ref(owner)
    again = tensor_of(array)
    del tensor, array, owner
    assert gone() is not None
    assert again.float().tolist() == [1.0] * 3
    del again
    assert gone() is None


def test_a_layer_that_was_used_leaves_nothing_behind() -> None:
    layer = BlockSparseLinear(8, 8, 8, 1.0)
    for wanted in (True, False):
        layer.blocks.requires_grad_(wanted)
        layer(torch.ones(2, 8))
    gone = weakref.ref(layer.blocks)
    del layer
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("block", [1, 8, (4, 16)], ids=str)
@pytest.mark.parametrize("dtype", WIDE + FP8[:1], ids=str)
def test_products_have_the_bits_of_the_functions(dtype: Any, block: Any, transpose: bool) -> None:
    w = sparse(32, 48, block, dtype=dtype)
    matrix = w.to_matrix().T if transpose else w.to_matrix()
    depth, made = matrix.shape
    x, bias = torch.randn(2, 5, depth).to(dtype), torch.randn(made)
    want = static.dense_sparse_matmul(array_of("x", x), matrix, bias=bias)
    same_bits(dense_sparse_matmul(x, w, transpose=transpose, bias=bias), want)
    x = torch.randn(made, 7).to(dtype)
    want = static.sparse_dense_matmul(matrix, array_of("x", x), out_dtype="float32")
    same_bits(sparse_dense_matmul(w, x, transpose=transpose, out_dtype=torch.float32), want)


def dense_gradients(function: Any, *leaves: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    y = function(*leaves)
    grad = small(*y.shape).to(y.dtype)
    return y, grad, torch.autograd.grad(y, [leaf for leaf in leaves if leaf.requires_grad], grad)


def compared(got: Any, want: Any, *leaves: Any) -> None:
    """Exact data: the gradients are equal, whatever the order of the sums."""
    y, grad, found = dense_gradients(got, *leaves)
    due = want(*leaves)
    assert torch.equal(y, due)
    for one, other, leaf in zip(found, torch.autograd.grad(due, [leaf for leaf in leaves if leaf.requires_grad], grad),
                                [leaf for leaf in leaves if leaf.requires_grad], strict=True):
        assert one.dtype is leaf.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("shape", [(5, 20), (2, 3, 20), (20,), (0, 20)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_a_layer_are_those_of_the_dense_one(dtype: Any, shape: Any) -> None:
    w = sparse(12, 20, (4, 8), dtype=dtype)  # blocks that reach over the edge
    x, blocks, bias = small(*shape, dtype=dtype), w.blocks, small(12, dtype=dtype)
    leaves = [t.detach().requires_grad_() for t in (x, blocks, bias)]
    compared(lambda x, b, c: dense_sparse_matmul(x, w._replace(blocks=b), transpose=True, bias=c),
             lambda x, b, c: x @ w._replace(blocks=b).to_dense().T + c, *leaves)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(20, 5), (2, 20, 3), (20,)], ids=str)
def test_gradients_of_a_sparse_operand_on_the_left(shape: Any, transpose: bool) -> None:
    w = sparse(*((20, 12) if transpose else (12, 20)), 4)
    leaves = [small(*shape).requires_grad_(), w.blocks.clone().requires_grad_(), small(12).requires_grad_()]

    def dense(x: Any, blocks: Any, bias: Any) -> Any:
        full = w._replace(blocks=blocks).to_dense()
        y = (full.T if transpose else full) @ x
        return y + (bias if x.dim() == 1 else bias[:, None])

    compared(lambda x, b, c: sparse_dense_matmul(w._replace(blocks=b), x, transpose=transpose, bias=c), dense, *leaves)


def test_groups_have_gradients_of_their_own() -> None:
    w = sparse(8, 12, 4, groups=3)
    leaves = [small(3, 5, 12).requires_grad_(), w.blocks.clone().requires_grad_(), small(3, 8).requires_grad_()]
    compared(lambda x, b, c: dense_sparse_matmul(x, w._replace(blocks=b), transpose=True, bias=c),
             lambda x, b, c: x @ w._replace(blocks=b).to_dense().mT + c[:, None], *leaves)
    leaves = [small(3, 12, 5).requires_grad_(), w.blocks.clone().requires_grad_()]
    compared(lambda x, b: sparse_dense_matmul(w._replace(blocks=b), x),
             lambda x, b: w._replace(blocks=b).to_dense() @ x, *leaves)
    leaves = [small(3, 8, 5).requires_grad_(), small(3, 5, 12).requires_grad_()]
    stored = w._replace(blocks=torch.ones_like(w.blocks)).to_dense()
    compared(lambda a, b: sampled_matmul(a, b, w).to_dense(), lambda a, b: a @ b * stored, *leaves)


def test_sampled_products_and_their_gradients() -> None:
    w = sparse(12, 20, 8)  # over both edges
    leaves = [small(12, 6).requires_grad_(), small(6, 20).requires_grad_()]
    stored = w._replace(blocks=torch.ones_like(w.blocks)).to_dense()
    compared(lambda a, b: sampled_matmul(a, b, w).to_dense(), lambda a, b: a @ b * stored, *leaves)
    made = sampled_matmul(*(leaf.detach() for leaf in leaves), w, out_dtype=torch.bfloat16)
    want = static.sparse_grad_w(w.to_matrix(), leaves[0].detach(), leaves[1].detach().T, out_dtype="bfloat16")
    same_bits(made.blocks, want)


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((4,), (4, 5)),
                                    ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (6, 4, 5))], ids=str)
def test_dense_products_and_their_gradients(shapes: Any) -> None:
    leaves = [small(*shape).requires_grad_() for shape in shapes]
    compared(matmul, torch.matmul, *leaves)
    if all(len(shape) > 1 for shape in shapes):
        leaves.append(small(5).requires_grad_())
        compared(lambda a, b, c: matmul(a, b, bias=c), lambda a, b, c: torch.matmul(a, b) + c, *leaves)


@pytest.mark.parametrize("shapes", [((4, 3), (3,), (4, 1)), ((3,), (3, 5), (1, 5)), ((2, 4, 3), (3,), (1, 1)),
                                    ((3,), (2, 3, 5), (2, 1, 5))], ids=str)
def test_a_bias_of_a_vector_s_product_has_its_gradient(shapes: Any) -> None:
    a, b, bias = leaves = [small(*shape).requires_grad_() for shape in shapes]
    wide = (a[None] if a.dim() == 1 else a) @ (b[:, None] if b.dim() == 1 else b) + bias
    want = torch.autograd.grad((wide * wide).sum(), leaves)
    y = matmul(a, b, bias=bias)
    got = torch.autograd.grad((y * y).sum(), leaves)
    assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))


@pytest.mark.parametrize("shapes", [((2, 3, 0), (0, 5)), ((2, 0, 4), (4, 0)), ((0, 3, 0), (0,))], ids=str)
def test_gradients_of_products_without_elements(shapes: Any) -> None:
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    got = torch.autograd.grad(matmul(*leaves).sum(), leaves)
    assert [x.shape for x in got] == [x.shape for x in leaves]
    assert not any(x.any() for x in got)


def test_gradients_of_broadcast_operands_are_rounded_once() -> None:
    """Of 96 equal products, each almost half a unit below the next FP16 number: a sum of rounded ones is another."""
    number = 1 + 22 * 2.0**-10
    a = torch.ones(1, 2, dtype=torch.float16, requires_grad=True)
    b, grad = (torch.full(shape, number, dtype=torch.float16) for shape in ((96, 2, 1), (96, 1, 1)))
    (got,) = torch.autograd.grad(matmul(a, b), a, grad)
    assert torch.equal(got, torch.full((1, 2), 96 * number**2).half())
    assert not torch.equal(got, torch.full((1, 2), 96 * float(torch.tensor(number**2).half())).half())


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_sums_of_fp8_gradients(dtype: Any) -> None:
    x, w, bias = (small(*shape).to(dtype).requires_grad_() for shape in ((2, 3, 4), (1, 4, 6), (6,)))
    y = matmul(x, w, bias=bias, out_dtype=dtype)
    got = torch.autograd.grad(y, (w, bias), torch.ones_like(y))
    assert [g.dtype for g in got] == [dtype, dtype]
    assert torch.equal(got[0].float(), x.float().sum((0, 1))[:, None].expand(1, 4, 6))
    assert torch.equal(got[1].float(), torch.full((6,), 6.0))
    y = dense_sparse_matmul(small(3, 4), sparse(4, 6, 2), bias=bias)
    assert torch.equal(torch.autograd.grad(y.sum(), bias)[0].float(), torch.full((6,), 3.0))


def test_groups_of_one_output_have_biases_with_gradients() -> None:
    w, x, bias = sparse(4, 1, (2, 1), groups=2), small(2, 3, 4), torch.zeros(2, 1, requires_grad=True)
    (got,) = torch.autograd.grad(dense_sparse_matmul(x, w, bias=bias).sum(), bias)
    assert torch.equal(got, torch.full((2, 1), 3.0))
    (got,) = torch.autograd.grad(sparse_dense_matmul(w, x.mT, transpose=True, bias=bias).sum(), bias)
    assert torch.equal(got, torch.full((2, 1), 3.0))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's forward mode warns of itself
def test_what_torch_cannot_follow_is_refused() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, a)
        for call in (lambda: matmul(dual, b), lambda: cast(dual, "float16")):
            with pytest.raises(UnsupportedError, match="forward mode"):
                call()
    with pytest.raises(UnsupportedError, match=r"torch\.func"):
        torch.func.grad(lambda x: matmul(x, b).sum())(a)
    assert torch.equal(torch.vmap(lambda x: matmul(x, b))(a[None]), matmul(a, b)[None])


def test_dense_products_have_the_bits_of_the_function() -> None:
    a, b = torch.randn(9, 17).to(torch.float8_e5m2), torch.randn(17, 6).bfloat16()
    same_bits(matmul(a, b), poplin.matmul(a, b))


@pytest.mark.parametrize("mask", ["none", "zero_upper_triangle"])
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_softmax_and_its_gradient_are_those_of_the_functions(dtype: Any, mask: str) -> None:
    x = sparse(24, 24, 8, 0.6, dtype=dtype)
    x = x._replace(blocks=torch.randn(x.blocks.shape).to(dtype).requires_grad_())
    y = bs_softmax(x, mask=mask)
    grad = torch.randn(x.blocks.shape).to(dtype)
    [found] = torch.autograd.grad(y.blocks, [x.blocks], grad)
    done = y._replace(blocks=y.blocks.detach()).to_matrix()
    want = bs_softmax_grad(done, BlockSparseMatrix(done.pattern, array_of("grad", grad)))
    same_bits(found, want.blocks)


def test_attention_has_the_bits_of_the_functions_forward_and_backward() -> None:
    length, wide = 48, 16
    pattern = banded_pattern(length, length, 8, 1, 0)
    place = BlockSparseTensor.from_pattern(pattern, torch.ones(pattern.n_blocks, 8, 8))
    q, k, v = (torch.randn(length, wide, requires_grad=True) for _ in range(3))
    weights = bs_softmax(sampled_matmul(q, k.T, place), mask="zero_upper_triangle")
    y = sparse_dense_matmul(weights, v)
    grad = torch.randn_like(y)
    found = torch.autograd.grad(y, [q, k, v], grad)

    dy, queries, keys, values = (array_of("x", t) for t in (grad, q, k, v))
    scores = BlockSparseMatrix(pattern, static.sparse_grad_w(place.to_matrix(), queries, keys))
    done = popsparse.bs_softmax(scores, mask="zero_upper_triangle")
    of_scores = bs_softmax_grad(done, BlockSparseMatrix(pattern, static.sparse_grad_w(done, dy, values)))
    same_bits(y, done @ values)
    for got, want in zip(found, (of_scores @ keys, of_scores.T @ queries, done.T @ dy), strict=True):
        assert np.array_equal(array_of("x", got), want)


def test_a_gradient_has_a_gradient() -> None:
    w = sparse(6, 8, 2)
    x, blocks = small(3, 8).requires_grad_(), w.blocks.clone().requires_grad_()

    def twice(made: Any) -> Any:
        [first] = torch.autograd.grad(made.square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, blocks])

    ours = twice(dense_sparse_matmul(x, w._replace(blocks=blocks), transpose=True))
    due = twice(x @ w._replace(blocks=blocks).to_dense().T)
    assert all(torch.equal(one, other) for one, other in zip(ours, due, strict=True))


def test_a_pattern_that_changes_is_seen() -> None:
    w = sparse(8, 8, 4, 0.25)
    before = dense_sparse_matmul(torch.eye(8), w)
    w.column_indices.copy_(1 - w.column_indices)
    after = dense_sparse_matmul(torch.eye(8), w)
    assert torch.equal(before.roll(4, 1), after)
    w.column_indices.fill_(7)
    with pytest.raises(InvalidArgumentError, match="column_indices"):
        dense_sparse_matmul(torch.eye(8), w)


def test_inference_tensors_are_compared_with_what_was_kept() -> None:
    with torch.inference_mode():
        w = sparse(8, 8, 4, 0.25)
        before = dense_sparse_matmul(torch.eye(8), w)
        w.column_indices.copy_(1 - w.column_indices)
        assert torch.equal(before.roll(4, 1), dense_sparse_matmul(torch.eye(8), w))


def test_a_parameter_that_moves_is_read_where_it_is() -> None:
    w = sparse(8, 8, 4, 0.5)
    blocks = torch.nn.Parameter(w.blocks)
    w = w._replace(blocks=blocks)
    for factor in (1, 2, 3):
        blocks.data = torch.full_like(blocks, float(factor))
        assert torch.equal(dense_sparse_matmul(torch.eye(8), w), w.to_dense())
    blocks.data = blocks.data.transpose(1, 2)
    blocks.data[0, 0, 1] = 9
    assert torch.equal(dense_sparse_matmul(torch.eye(8), w), w.to_dense())


def test_what_lies_outside_the_matrix_is_not_read() -> None:
    w = sparse(6, 6, 4, 1.0)
    want = dense_sparse_matmul(torch.eye(6), w)
    blocks = w.blocks.clone()
    blocks[1, :, 2:], blocks[2, 2:], blocks[3, 2:], blocks[3, :, 2:] = (float("nan"),) * 4
    assert torch.equal(dense_sparse_matmul(torch.eye(6), w._replace(blocks=blocks)), want)


def test_what_does_not_fit_is_refused_by_name() -> None:
    w, x = sparse(8, 12, 4), torch.ones(2, 8)
    for call, error, message in [
        (lambda: dense_sparse_matmul(torch.ones(2, 9), w), InvalidArgumentError, r"^x: got shape"),
        (lambda: dense_sparse_matmul(x.double(), w), InvalidTypeError, r"^x: got a tensor of float64; .*float32\)"),
        (lambda: dense_sparse_matmul(x.to_sparse(), w), InvalidTypeError, "^x: got a tensor of layout torch.sparse_c"),
        (lambda: dense_sparse_matmul(x.numpy(), w), InvalidTypeError, "^x: got ndarray"),
        (lambda: dense_sparse_matmul(x, w.to_dense()), InvalidTypeError, "^w: got Tensor"),
        (lambda: dense_sparse_matmul(x, w, bias=torch.ones(5)), InvalidArgumentError, "^bias: got shape"),
        (lambda: dense_sparse_matmul(x, w, out_dtype=torch.int8), InvalidTypeError, "^out_dtype: got"),
        (lambda: dense_sparse_matmul(x, w._replace(blocks=w.blocks[1:])), InvalidArgumentError, "^blocks: got"),
        (lambda: dense_sparse_matmul(x, w._replace(rows=9)), InvalidArgumentError, "^row_offsets: got"),
        (lambda: dense_sparse_matmul(x, w._replace(row_offsets=w.row_offsets.float())), InvalidTypeError,
         "^row_offsets: got"),
        (lambda: sparse_dense_matmul(w, torch.ones(2, 5)), InvalidArgumentError, r"^x: got shape \(2, 5\)"),
        (lambda: sampled_matmul(torch.ones(8, 3), torch.ones(4, 12), w), InvalidArgumentError, "^b: got shape"),
        (lambda: matmul(torch.ones(2, 3), torch.ones(2, 3)), InvalidArgumentError, "shape"),
        (lambda: matmul(torch.ones(2, 3), 3), InvalidTypeError, "^b: got int"),
        (lambda: bs_softmax(w, mask="diagonal"), InvalidArgumentError, "^mask: got"),
        (lambda: bs_softmax(w._replace(blocks=w.blocks.to(FP8[0]))), InvalidTypeError, "^x: got blocks of"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_patterns_go_with_their_tensors() -> None:
    from poplibs_py.torch import _patterns

    before = len(_patterns._KEPT), len(_patterns._PARAMETERS)
    for seed in range(5):
        pattern = random_pattern(32, 32, 8, 0.5, seed)
        w = BlockSparseTensor.from_pattern(pattern, torch.nn.Parameter(torch.ones(pattern.n_blocks, 8, 8)))
        dense_sparse_matmul(torch.ones(2, 32), w).sum().backward()
    assert len(_patterns._KEPT) <= before[0] + 1
    assert len(_patterns._PARAMETERS) <= before[1] + 1
