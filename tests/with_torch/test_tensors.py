"""Block-sparse tensors from and to torch's layouts, and casts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError  # noqa: E402
from poplibs_py.formats import FORMATS, Format, QuarterArray  # noqa: E402
from poplibs_py.popops import cast as popops_cast  # noqa: E402
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern  # noqa: E402
from poplibs_py.torch import BlockSparseTensor, cast, round_to  # noqa: E402
from poplibs_py.torch._library import array_of  # noqa: E402


def tensor(dtype: Any = torch.float32, shape: tuple[int, int] = (12, 20)) -> Any:
    dense = torch.randint(1, 5, shape) * (torch.rand(shape) < 0.1)
    return dense.to(dtype)


@pytest.mark.parametrize("layout", ["csr", "coo", "bsr"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_torch_s_layouts_come_in_and_go_out(dtype: Any, layout: str) -> None:
    dense = tensor(dtype)
    given = {"csr": dense.to_sparse_csr, "coo": dense.to_sparse, "bsr": lambda: dense.to_sparse_bsr((2, 4))}[layout]()
    made = BlockSparseTensor.from_sparse(given)
    assert made.block_shape == ((2, 4) if layout == "bsr" else (1, 1))
    assert made.blocks.dtype is dtype
    for block in (made.block_shape, 4, (3, 2)):
        w = BlockSparseTensor.from_sparse(given, block)
        assert torch.equal(w.to_dense(), dense)
        back = w.to_sparse(layout)
        assert str(back.layout) == f"torch.sparse_{layout}"
        assert torch.equal(back.to_dense(), dense)
    assert w.density == w.to_matrix().density
    assert made.to_sparse("bsr").values().data_ptr() == made.blocks.data_ptr()


def test_elements_of_blocks_over_the_edge_go_out_in_order() -> None:
    dense = torch.arange(1.0, 36).reshape(5, 7)
    w = BlockSparseTensor.from_dense(dense, (2, 4))
    for layout in ("csr", "coo"):
        made = w.to_sparse(layout)
        assert torch.equal(made.to_dense(), dense)
        assert torch.equal(made.values(), dense.reshape(-1))
    with pytest.raises(InvalidArgumentError, match=r"^layout: got 'bsr'"):
        w.to_sparse("bsr")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "e4m3"])
def test_matrices_share_their_blocks(dtype: str) -> None:
    matrix = random_matrix(random_pattern(16, 24, 8, 0.5, 1), dtype, scale=0)
    w = BlockSparseTensor.from_matrix(matrix)
    assert w.to_matrix().equals(matrix)
    assert w.blocks.data_ptr() == matrix.blocks.ctypes.data
    assert np.array_equal(w.to_dense().float().numpy(), matrix.to_dense())
    assert BlockSparseTensor.from_matrix(matrix.T).to_matrix().equals(matrix.T)


def test_gradients_flow_through_both_conversions() -> None:
    dense = torch.randint(-2, 3, (2, 6, 10)).float().requires_grad_()
    mask = torch.rand(2, 6, 10) < 0.5
    w = BlockSparseTensor.from_dense(dense, 4, mask=mask)
    assert torch.equal(w.to_dense(), dense * mask)
    grad = torch.randn(2, 6, 10)
    [found] = torch.autograd.grad(w.to_dense(), dense, grad)
    assert torch.equal(found, grad * mask)


def test_tensors_that_do_not_fit_are_refused_by_name() -> None:
    w = BlockSparseTensor.from_dense(torch.ones(4, 4), 2)
    for call, error, message in [
        (lambda: BlockSparseTensor.from_dense(np.ones((4, 4)), 2), InvalidTypeError, "^dense: got ndarray"),
        (lambda: BlockSparseTensor.from_sparse(torch.ones(4, 4)), InvalidTypeError, "^tensor: got torch.strided"),
        (lambda: BlockSparseTensor.from_matrix(w), InvalidTypeError, "^matrix: got"),
        (lambda: BlockSparseTensor.from_matrix(random_matrix(random_pattern(8, 8, 4, 1), "f143", scale=1)),
         InvalidArgumentError, "^matrix: got a scale"),
        (lambda: BlockSparseTensor.from_pattern(w.pattern, torch.ones(3, 2, 2)), InvalidArgumentError, "^blocks: got"),
        (lambda: BlockSparseTensor.from_pattern(4, torch.ones(3, 2, 2)), InvalidTypeError, "^pattern: got int"),
        (lambda: w.to_sparse("csc"), InvalidArgumentError, "^layout: got csc"),
        (lambda: BlockSparseTensor.from_dense(torch.ones(2, 4, 4), 2).to_sparse(), InvalidArgumentError,
         "^layout: got 2 groups"),
    ]:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("to", FORMATS, ids=str)
@pytest.mark.parametrize("source", FORMATS, ids=str)
def test_casts_have_the_bits_of_the_function(source: Format, to: Format) -> None:
    x = cast(torch.randn(37) * 100, source)
    for how in ({}, {"rounding": "toward-zero", "overflow": "saturate"},
                {"rounding": "stochastic", "seed": (7, 2**32 - 1), "random_bits": 9}):
        got, want = array_of("y", cast(x, to, **how)), popops_cast(array_of("x", x), to, **how)
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


def test_scales_of_casts_and_their_gradients() -> None:
    x = torch.tensor([300.0, -7.0, 0.01], requires_grad=True)
    codes = cast(x, "f143", scale=3)
    want = popops_cast(x.detach().numpy(), "f143", scale=3)
    assert array_of("codes", codes).tobytes() == want.codes.tobytes()
    back = cast(codes, torch.float32, x_scale=3)
    assert np.array_equal(back.detach().numpy(), want.to_array())
    [grad] = torch.autograd.grad(back, x, torch.tensor([1.0, 2.0, 4.0]))
    assert torch.equal(grad, torch.tensor([1.0, 2.0, 4.0]))  # times 8, exact in F143, and over 8


@pytest.mark.parametrize("dtype", ["e4m3", "f152", "bfloat16", Format("e3m2", 3, 2, 3)], ids=str)
@pytest.mark.parametrize("scale", [0, -2, "auto"])
def test_rounding_to_a_format_within_another(scale: Any, dtype: Any) -> None:
    x = torch.randn(50, requires_grad=True)
    if scale != 0 and dtype == "bfloat16":
        scale = 0
    y = round_to(x, dtype, scale=scale)
    want = popops_cast(x.detach().numpy(), dtype, scale=scale)
    values = want.to_array() if isinstance(want, QuarterArray) else want.astype(np.float32)
    assert np.array_equal(y.detach().numpy(), values)
    grad = torch.randn(50)
    assert torch.equal(torch.autograd.grad(y, x, grad)[0], grad)


def test_casts_that_do_not_fit_are_refused_by_name() -> None:
    x = torch.ones(2)
    for call, error, message in [
        (lambda: cast(x.double(), "e4m3"), InvalidTypeError, "^x: got a tensor of float64"),
        (lambda: cast(x, torch.int8), InvalidTypeError, "^dtype: got"),
        (lambda: cast(x, Format("e3m2", 3, 2, 3)), InvalidTypeError, "^dtype: got"),
        (lambda: cast(x, "e4m3", scale="auto"), InvalidTypeError, "^scale: got"),
        (lambda: cast(x, "e4m3", rounding="sideways"), InvalidArgumentError, "^rounding: got"),
        (lambda: cast(x, "e4m3", rounding="stochastic"), InvalidArgumentError, "^seed: got None"),
        (lambda: cast(x, "e4m3", seed=3), InvalidArgumentError, "^seed: got 3"),
        (lambda: cast(x, "e4m3", rounding="stochastic", seed=1, random_bits=40), InvalidArgumentError,
         "^random_bits: got 40"),
        (lambda: round_to(x, "no format"), InvalidTypeError, "^dtype: got"),
        (lambda: round_to(x, "e4m3", scale=1.5), InvalidTypeError, "^scale: got"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_a_matrix_of_torch_s_is_the_same_by_either_door() -> None:
    given = tensor().to_sparse_csr()
    assert BlockSparseTensor.from_sparse(given, 4).to_matrix().equals(BlockSparseMatrix.from_scipy(given, 4))
