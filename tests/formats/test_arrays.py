"""What stands for an array is taken, the same everywhere; what would lose something is refused by name."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from poplibs_py import cast, poplin, poprand
from poplibs_py.errors import InvalidTypeError, PoplibsError, described
from poplibs_py.formats import BF16, E4M3, F143, F152, FORMATS, Format, QuarterArray, arrays
from poplibs_py.formats.arrays import as_array
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, static

X = np.arange(1.0, 17.0, dtype=np.float32).reshape(4, 4)
W = BlockSparseMatrix.from_dense(X, 2)

TAKERS = {
    "matmul a": ("a", lambda x: poplin.matmul(x, X)),
    "matmul b": ("b", lambda x: poplin.matmul(X, x)),
    "matmul bias": ("bias", lambda x: poplin.matmul(X, X, bias=x[0] if isinstance(x, np.ndarray) else x)),
    "matmul_acc a": ("a", lambda x: poplin.matmul_acc(X.copy(), x, X)),
    "matmul_grouped a": ("a", lambda x: poplin.matmul_grouped(x[None] if isinstance(x, np.ndarray) else x, X[None])),
    "prepare": ("w", poplin.prepare),
    "compiled a": ("a", lambda x: poplin.compile_matmul(poplin.plan_matmul((4, 4), (4, 4)))(x, X)),
    "cast": ("x", lambda x: cast(x, "float16")),
    "from_dense": ("dense", lambda x: BlockSparseMatrix.from_dense(x, 2)),
    "from_blocks": ("blocks", lambda x: BlockSparseMatrix.from_blocks(
        x, shape=(4, 4), block_shape=4, row_offsets=[0, 1], column_indices=[0])),
    "update": ("values", lambda x: W.copy().update(x)),
    "from_array": ("values", lambda x: QuarterArray.from_array(x, "f143")),
    "w @ x": ("x", lambda x: static.sparse_dense_matmul(W, x)),
    "x @ w": ("x", lambda x: static.dense_sparse_matmul(x, W)),
    "bias of w @ x": ("bias", lambda x: static.sparse_dense_matmul(W, X, bias=x)),
    "dynamic": ("x", lambda x: dynamic.sparse_dense_matmul(W, x)),
    "layer": ("acts", lambda x: dynamic.fully_connected_fwd(W, x)),
    "grad_w grads": ("grads", lambda x: static.sparse_grad_w(W, x, X)),
    "grad_w x": ("x", lambda x: static.sparse_grad_w(W, X, x)),
    "dropout": ("x", lambda x: poprand.dropout(x, 0.5, seed=1)),
    "categorical": ("weights", lambda x: poprand.categorical(3, x, seed=1)),
}


def numbers_of(made):
    """What was computed, or what a prepared operand holds, as an array."""
    if isinstance(made, poplin.PreparedMatrix):
        return poplin.matmul(X, made)
    return np.asarray(getattr(made, "blocks", getattr(made, "codes", made)))


class Raising:
    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError("somebody else's")


NO_ARRAYS = {
    "masked": np.ma.masked_array(X, X > 3),
    "scipy": scipy.sparse.csr_array(X),
    "object": X.astype(object),
    "structured": np.zeros((4, 4), [("a", "f4"), ("b", "i4")]),
    "complex": X.astype(complex),
    "datetime": X.astype("M8[s]"),
    "text": X.astype(str),
    "bytes": b"0123456789abcdef",
    "ragged": [[1.0, 2.0], [3.0]],
    "strings": [["1", "2"], ["3", "4"]],
    "raising": Raising(),
    "dictionary": {"a": 1},
    "generator": (row for row in X),
    "sparse": W,
    "type": np.ndarray,
    "none": [[None] * 4] * 4,
    "large": [[2**70] * 4] * 4,
}  # fmt: skip


@pytest.mark.parametrize("value", NO_ARRAYS.values(), ids=NO_ARRAYS)
@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)
def test_what_is_no_array_is_refused_by_name(taker, value):
    name, take = taker
    with pytest.raises(PoplibsError, match=rf"^{name}: got .*; allowed: ") as caught:
        take(value)
    assert len(str(caught.value)) < 500


def test_masks_are_never_lost():
    masked = np.ma.masked_array(X)  # not even one that masks nothing: it may tomorrow
    with pytest.raises(InvalidTypeError, match=r"^dense: got a masked array; allowed: .*numpy\.ma\.filled"):
        BlockSparseMatrix.from_dense(masked, 2)
    for name, call in {
        "out": lambda: poplin.matmul(X, X, out=masked), "c": lambda: poplin.matmul_acc(masked, X, X),
        "codes": lambda: QuarterArray(np.ma.masked_array(np.zeros(3, np.uint8)), "f143"),
        "blocks": lambda: BlockSparseMatrix(W.pattern, np.ma.masked_array(W.blocks)),
        "mask": lambda: BlockSparseMatrix.from_mask(np.ma.masked_array(np.eye(2, dtype=bool)), 2),
        "column_indices": lambda: BlockPattern((2, 2), 2, [0, 1], np.ma.masked_array([0])),
        "scale": lambda: QuarterArray(np.zeros(3, np.uint8), "f143", np.ma.masked_array(1)),
    }.items():  # fmt: skip
        with pytest.raises(PoplibsError, match=rf"^{name}: got .*[Mm]ask.*; allowed: "):
            call()
    for call in (lambda: static.sparse_dense_matmul(W, X, out=masked), lambda: cast(X, "float32", out=masked),
                 lambda: poprand.dropout(X, 0.5, seed=1, out=masked)):
        with pytest.raises(PoplibsError, match=r"^out: got .*; allowed: "):
            call()


@pytest.mark.parametrize("given", [
    [[1.0, 2.0], [3, True]], np.matrix(X), X.view(type("Mine", (np.ndarray,), {})), ((1, 2), (3, 4)), np.float32(3),
    memoryview(X),
])  # fmt: skip
def test_what_stands_for_an_array_is_taken(given):
    taken = as_array("x", given, "anything", np.float32)
    assert type(taken) is np.ndarray
    assert np.array_equal(taken, np.asarray(given))


def test_an_array_is_taken_as_it_is():
    taken = as_array("x", X, "anything")
    assert np.shares_memory(taken, X)
    assert (taken.shape, taken.strides, taken.dtype) == (X.shape, X.strides, X.dtype)
    assert np.shares_memory(as_array("x", X.view(np.matrix), "anything"), X)


torch = pytest.importorskip("torch")


@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)
def test_a_tensor_that_requires_a_gradient_is_refused_clearly(taker):
    name, take = taker
    tensor = torch.ones(4, 4, requires_grad=True)
    with pytest.raises(PoplibsError, match=rf"^{name}: got a tensor that requires a gradient; allowed: .*detach"):
        take(tensor)


@pytest.mark.parametrize("taker", [t for n, t in TAKERS.items() if "bias" not in n and n not in (
    "matmul_grouped a", "from_blocks", "update", "categorical")])  # fmt: skip
def test_tensors_of_float32_are_taken_everywhere(taker):
    made, due = numbers_of(taker[1](torch.tensor(X))), numbers_of(taker[1](X))
    assert made.dtype == due.dtype
    assert made.tobytes() == due.tobytes()


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fnuz", "float8_e5m2fnuz",
                                  "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("layout", ["rows", "turned", "every other", "empty"])
def test_tensors_of_every_format_share_memory_and_bits(name, layout):
    whole = torch.tensor(X).to(getattr(torch, name))
    tensor = {"rows": whole, "turned": whole.T, "every other": whole[::2], "empty": whole[:0]}[layout]
    taken = as_array("x", tensor, "anything")
    assert taken.shape == tuple(tensor.shape)
    assert any(taken.dtype == f.dtype for f in FORMATS)
    assert np.array_equal(taken.astype(np.float32), tensor.float().numpy())
    if taken.size:
        assert taken.ctypes.data == tensor.data_ptr()


def test_products_of_bfloat16_tensors():
    tensor = torch.tensor(X).bfloat16()
    due = poplin.matmul(X.astype(BF16.dtype), X)
    assert np.array_equal(poplin.matmul(tensor, X), due)
    assert np.array_equal(W @ tensor, W @ X.astype(BF16.dtype))
    assert np.array_equal(tensor @ W, X.astype(BF16.dtype) @ W)


@pytest.mark.parametrize("make", [
    lambda: torch.ones(4, 4).to_sparse(), lambda: torch.empty(4, 4, device="meta"),
    lambda: torch.ones(4, 4, dtype=torch.complex64),
])  # fmt: skip
def test_tensors_that_numpy_cannot_take_are_refused_by_name(make):
    with pytest.raises(PoplibsError, match=r"^a: got .*; allowed: "):
        poplin.matmul(make(), X)


def test_long_contents_do_not_fill_a_message():
    for value in ([0.5] * 10**6, np.zeros(10**6), torch.zeros(10**5), "x" * 10**6, {i: i for i in range(10**5)},
                  10**4000, 10**5000, [[[1] * 10**5]], memoryview(X)):
        assert len(described(value)) <= 200
    for call in (lambda: W @ np.zeros((1000, 1000)), lambda: np.zeros((1000, 1000)) @ W,
                 lambda: poprand.dropout(np.zeros((100, 100)), 0.5), lambda: poprand.categorical(3, -np.ones(10**5))):
        with pytest.raises(PoplibsError) as caught:
            call()
        assert len(str(caught.value)) < 250


def test_numpy_is_told_what_dlpack_calls_the_narrow_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[tuple[int, int], Any] = {}

    def register(key: tuple[int, int], dtype: Any) -> None:
        if key == (12, 8):
            raise ValueError("taken")
        told[key] = dtype

    monkeypatch.setattr(np.dtypes, "register_dlpack_dtype", register, raising=False)
    arrays.register_dlpack()
    assert told == {(4, 16): BF16.dtype, (10, 8): E4M3.dtype, (11, 8): F143.dtype, (13, 8): F152.dtype}


@pytest.mark.skipif(not hasattr(np.dtypes, "register_dlpack_dtype"), reason="NumPy before 2.5 has no such register")
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_arrays_of_every_format_go_through_dlpack(form: Format) -> None:
    x = np.arange(4).astype(form.dtype)
    again = np.from_dlpack(x)
    assert again.dtype == x.dtype
    assert np.shares_memory(x, again)
