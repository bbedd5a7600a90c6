"""BlockSparseMatrix against dense NumPy: making, slicing, transposing, converting."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32, auto_scale
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix

FORMATS = [FP32, BF16, FP16, F143, F152]


@st.composite
def dense_arrays(draw: Any) -> Any:
    """Small whole numbers, exact in every format, in a dense array that is zero in most places."""
    groups = draw(st.integers(1, 3))
    rows, columns = draw(st.integers(0, 24)), draw(st.integers(0, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dense = rng.integers(-4, 5, (groups, rows, columns)) * (rng.random((groups, rows, columns)) < draw(st.floats(0, 1)))
    return (dense if groups > 1 else dense[0]).astype(np.float32)


block_shapes = st.tuples(st.integers(1, 9), st.integers(1, 9))


@given(dense_arrays(), block_shapes, st.sampled_from(FORMATS), st.integers(-2, 1))
def test_dense_round_trip(dense: Any, block_shape: Any, format: Any, scale: int) -> None:
    scale = scale if format.bits == 8 else 0
    w = BlockSparseMatrix.from_dense(dense, block_shape, dtype=format, scale=scale)
    assert w.format == format
    assert w.blocks.flags.c_contiguous
    assert w.blocks.shape == (w.n_blocks, *block_shape)
    np.testing.assert_array_equal(w.to_dense(), dense, strict=True)
    np.testing.assert_array_equal(w.T.to_dense(), dense.swapaxes(-1, -2), strict=True)
    np.testing.assert_array_equal(w.astype(FP32).to_dense(np.float64), dense.astype(np.float64), strict=True)
    assert w.nnz == w.n_blocks * block_shape[0] * block_shape[1]
    np.testing.assert_array_equal(np.diff(w.row_offsets).sum(), w.n_blocks)


@given(dense_arrays(), block_shapes)
def test_transpose_is_a_view_and_its_copy_is_stored_transposed(dense: Any, block_shape: Any) -> None:
    w = BlockSparseMatrix.from_dense(dense, block_shape)
    assert w.T.shape == w.shape[::-1]
    assert w.T.block_shape == block_shape[::-1]
    assert w.T.is_transposed
    assert not w.T.T.is_transposed
    assert w.n_blocks == 0 or np.shares_memory(w.T.blocks, w.blocks)
    stored = w.T.copy()
    assert not stored.is_transposed
    assert stored.equals(w.T)
    assert stored.equals(BlockSparseMatrix.from_dense(dense.swapaxes(-1, -2), block_shape[::-1]))


@given(dense_arrays(), block_shapes, st.booleans(), st.data())
def test_slices_of_rows(dense: Any, block_shape: Any, transposed: bool, data: Any) -> None:
    w = BlockSparseMatrix.from_dense(dense, block_shape)
    if transposed:
        w, dense = w.T, dense.swapaxes(-1, -2)
    rows, side = w.shape[0], w.block_shape[0]
    edges = [*range(0, rows, side), rows]
    start, stop = data.draw(st.sampled_from(edges)), data.draw(st.sampled_from(edges))
    part = w[start:stop]
    np.testing.assert_array_equal(part.to_dense(), dense[..., start:stop, :], strict=True)
    if not transposed and w.groups == 1 and part.n_blocks:
        assert np.shares_memory(part.blocks, w.blocks)
    inside = [i for i in range(rows) if i % side]
    if inside:
        with pytest.raises(InvalidArgumentError, match="rows"):
            w[data.draw(st.sampled_from(inside)) : rows]


@given(dense_arrays(), block_shapes, st.integers(0, 2**32 - 1), st.sampled_from([np.int32, np.int64, np.uint16]))
def test_parts_in_any_order(dense: Any, block_shape: Any, seed: int, dtype: Any) -> None:
    w = BlockSparseMatrix.from_dense(dense, block_shape)
    order = np.random.default_rng(seed).permutation(w.n_blocks)
    rows, columns = w.pattern.row_indices[order].astype(dtype), w.column_indices[order].astype(dtype)
    v = BlockSparseMatrix.from_blocks(w.blocks[order], shape=w.shape, block_shape=block_shape, groups=w.groups,
                                      row_indices=rows, column_indices=columns)
    assert v.equals(w)
    within = order[np.argsort(rows, kind="stable")]
    v = BlockSparseMatrix.from_blocks(w.blocks[within], shape=w.shape, row_offsets=w.row_offsets, groups=w.groups,
                                      column_indices=w.column_indices[within], block_shape=block_shape)
    assert v.equals(w)


@given(dense_arrays(), block_shapes, st.sampled_from(FORMATS), st.booleans())
def test_pickle_keeps_every_bit(dense: Any, block_shape: Any, format: Any, transposed: bool) -> None:
    w = BlockSparseMatrix.from_dense(dense, block_shape, dtype=format)
    w = w.T if transposed else w
    again = pickle.loads(pickle.dumps(w))
    assert again.equals(w)
    assert again.is_transposed == transposed


@given(dense_arrays(), block_shapes, st.floats(0, 1))
def test_density_keeps_the_largest_blocks(dense: Any, block_shape: Any, density: float) -> None:
    w = BlockSparseMatrix.from_dense(dense, block_shape, density=density)
    everything = w.groups * w.pattern.block_rows * w.pattern.block_columns
    assert w.n_blocks == max(math.ceil(round(density * everything, 6)), int(density > 0 and everything > 0))
    full = BlockSparseMatrix.from_dense(dense, block_shape, density=1.0)
    norms = np.sort((full.blocks.astype(np.float64) ** 2).sum((1, 2)))[::-1]
    np.testing.assert_array_equal(np.sort((w.blocks.astype(np.float64) ** 2).sum((1, 2)))[::-1], norms[: w.n_blocks])


@given(dense_arrays(), block_shapes, st.integers(0, 2**32 - 1))
def test_mask_keeps_its_blocks(dense: Any, block_shape: Any, seed: int) -> None:
    stack = dense if dense.ndim == 3 else dense[None]
    counts = [-(-extent // side) for extent, side in zip(stack.shape[1:], block_shape, strict=True)]
    chosen = np.random.default_rng(seed).random((stack.shape[0], *counts)) < 0.5
    chosen = chosen if dense.ndim == 3 else chosen[0]
    w = BlockSparseMatrix.from_dense(dense, block_shape, mask=chosen)
    wide = chosen.repeat(block_shape[0], axis=-2).repeat(block_shape[1], axis=-1)[..., : w.shape[0], : w.shape[1]]
    np.testing.assert_array_equal(w.to_dense(), np.where(wide, dense, 0))
    empty = BlockSparseMatrix.from_mask(chosen, block_shape, shape=w.shape)
    assert empty.pattern == w.pattern
    assert not empty.blocks.any()


def test_values_are_updated_in_place_and_seen_by_views() -> None:
    w = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 2, dtype="bfloat16")
    view = w.T
    w.update([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert view.to_dense()[0].tolist() == [1, 3, 0, 0]
    view.blocks[0, 0, 0] = 9
    assert w.to_dense()[0, 0] == 9


def test_the_pattern_cannot_be_written_to() -> None:
    w = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 2)
    for array in (w.row_offsets, w.column_indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("format", [*FORMATS, E4M3, E5M2], ids=lambda f: f.name)
def test_blocks_of_a_format_s_dtype_have_that_format(format: Any) -> None:
    dense = np.eye(4, dtype=np.float32).astype(format.dtype)
    w = BlockSparseMatrix.from_dense(dense, 2)
    assert w.format == format
    assert BlockSparseMatrix(w.pattern, w.blocks).format == format
    held = BlockSparseMatrix.from_blocks(w.blocks, shape=(4, 4), column_indices=[0, 1], row_indices=[0, 1])
    assert held.format == format
    assert held.blocks.tobytes() == w.blocks.tobytes()


def test_scale_for_each_block() -> None:
    values = np.array([3.0, 48.0, -7168.0], np.float32)
    w = BlockSparseMatrix.from_blocks(values, shape=(2, 3), row_indices=[1, 0, 0], column_indices=[0, 2, 1],
                                      dtype=F143, scale=[0, 4, 10])
    assert w.scale.tolist() == [10, 4, 0]  # type: ignore[union-attr]
    assert w.to_dense().tolist() == [[0, -7168, 48], [3, 0, 0]]
    assert w.T.copy().to_dense().tolist() == [[0, 3], [-7168, 0], [48, 0]]
    assert w[1:2].to_dense().tolist() == [[3, 0, 0]]
    assert w.astype("f152", scale=5).to_dense().tolist() == w.to_dense().tolist()


@given(dense_arrays(), block_shapes, st.sampled_from([F143, F152]), st.sampled_from([-20, 0, 17]))
def test_auto_scale_and_quarter_arrays(dense: Any, block_shape: Any, format: Any, power: int) -> None:
    w = BlockSparseMatrix.from_dense(dense * 2.0**power, block_shape, dtype=format, scale="auto")
    np.testing.assert_array_equal(w.to_dense(), dense * np.float32(2.0**power))
    assert w.scale == int(auto_scale(w.to_dense(), format))
    quarter = w.to_quarter()
    np.testing.assert_array_equal(quarter.to_array(), w.blocks.astype(np.float32) * 2.0**w.scale)
    parts: Any = {"shape": w.shape, "row_offsets": w.row_offsets, "column_indices": w.column_indices,
                  "groups": w.groups, "block_shape": block_shape}
    assert BlockSparseMatrix.from_blocks(quarter, **parts).equals(w)
    assert BlockSparseMatrix.from_blocks(quarter, dtype="float32", **parts).equals(w.astype("float32"))
    each = np.arange(w.n_blocks) % 3 - 1
    scaled = BlockSparseMatrix(w.pattern, w.blocks, w.format, each)
    assert BlockSparseMatrix.from_blocks(scaled.to_quarter(), **parts).equals(scaled)
    with pytest.raises(InvalidArgumentError, match="format: got float32"):
        w.astype("float32").to_quarter()


@given(dense_arrays(), block_shapes, st.sampled_from([F143, F152, E4M3, E5M2]), st.integers(0, 2**32 - 1))
def test_auto_scale_for_each_block(dense: Any, block_shape: Any, format: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(dense, block_shape)
    w.update(w.blocks * rng.uniform(0.5, 2, w.blocks.shape) * 2.0 ** rng.integers(-20, 20, (w.n_blocks, 1, 1)))
    made = w.astype(format, "auto_per_block")
    scale: Any = made.scale
    assert (scale.shape, scale.dtype) == ((w.n_blocks,), np.int8)
    exact, most = w.blocks.astype(np.float64), abs(w.blocks).max(axis=(1, 2), initial=0)
    step = 2.0 ** scale[:, None, None]
    # One rounding to nearest: half an ulp of a normal number, half the smallest step of a subnormal one.
    radius = np.maximum(format.unit_roundoff * abs(exact), format.smallest_subnormal * step / 2)
    assert (abs(made.blocks.astype(np.float64) * step - exact) <= radius).all()
    assert (most <= format.max * 2.0**scale).all()
    assert ((most > format.max * 2.0 ** (scale - 1.0)) | (scale == format.scales[0])).all()
    assert BlockSparseMatrix.from_dense(w.to_dense(), block_shape, dtype=format, scale="auto_per_block").equals(made)
    order = rng.permutation(w.n_blocks)
    parts: Any = {"row_indices": w.pattern.row_indices[order], "column_indices": w.column_indices[order],
                  "block_shape": block_shape, "groups": w.groups}
    assert BlockSparseMatrix.from_blocks(w.blocks[order], shape=w.shape, dtype=format, scale="auto_per_block",
                                         **parts).equals(made)
    assert w.T.astype(format, "auto_per_block").equals(made.T)
    assert w.astype("float16", "auto_per_block").scale == 0
    x = rng.standard_normal((w.groups, w.shape[1], 3)[w.groups == 1:]).astype(np.float32)
    testing.check("static.sparse_dense_matmul", made, x)


GOOD: dict[str, Any] = {"shape": (5, 6), "row_offsets": [0, 1, 3, 3], "column_indices": [2, 0, 1]}
BAD_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"shape": (5,)}, "shape"), ({"shape": (5, -6)}, "shape"), ({"shape": (5.0, 6)}, "shape"), ({"shape": 5}, "shape"),
    ({"shape": (1, (2, 3))}, "shape"), ({"shape": np.array(4)}, "shape"), ({"block_shape": (1, (2, 3))}, "block_shape"),
    ({"shape": (2**31, 6)}, "shape"), ({"shape": (2**70, 6)}, "shape"), ({"shape": (2**30, 6), "groups": 3}, "shape"),
    ({"shape": (7, 6)}, "row_offsets"), ({"shape": (True, 6)}, "shape"),
    ({"groups": 0}, "groups"), ({"groups": 2}, "row_offsets"), ({"groups": 1.5}, "groups"),
    ({"groups": 2**40}, "groups"),
    ({"row_offsets": [0, 1, 3]}, "row_offsets"), ({"row_offsets": [1, 1, 3, 3]}, "row_offsets"),
    ({"row_offsets": [0, 3, 1, 3]}, "row_offsets"), ({"row_offsets": [0, 1, 3, 4]}, "row_offsets"),
    ({"row_offsets": [0, 1, -3, 3]}, "row_offsets"), ({"row_offsets": [[0, 1, 3, 3]]}, "row_offsets"),
    ({"row_offsets": [0.0, 1, 3, 3]}, "row_offsets"), ({"row_offsets": None}, "row_offsets"),
    ({"row_offsets": np.array([0, 1, 3, 2**63], np.uint64)}, "row_offsets"),
    ({"row_indices": [0, 1, 1]}, "row_offsets"),
    ({"column_indices": [2, 0, 3]}, "column_indices"), ({"column_indices": [2, -1, 1]}, "column_indices"),
    ({"column_indices": [2, 1, 1]}, "column_indices"), ({"column_indices": [2, 2**31, 1]}, "column_indices"),
    ({"column_indices": [2, 2**32, 1]}, "column_indices"), ({"column_indices": [2, 1]}, "column_indices"),
    ({"column_indices": ["a", "b", "c"]}, "column_indices"), ({"column_indices": [[1], [2, 3], [4]]}, "column_indices"),
    ({"row_offsets": None, "row_indices": [0, 1, 3]}, "row_indices"),
    ({"row_offsets": None, "row_indices": [0, 1]}, "row_indices"),
    ({"row_offsets": None, "row_indices": [0, 1, -1]}, "row_indices"),
    ({"row_offsets": None, "row_indices": [0, 1, 1], "column_indices": [0, 2, 2]}, "column_indices"),
    ({"block_shape": 3}, "blocks"), ({"block_shape": 0}, "block_shape"), ({"block_shape": (2, 2, 2)}, "block_shape"),
    ({"block_shape": "2"}, "block_shape"), ({"dtype": "float64"}, "dtype"), ({"dtype": ...}, "dtype"),
    ({"scale": 1}, "scale"), ({"scale": 0.5}, "scale"), ({"dtype": "f143", "scale": 109}, "scale"),
    ({"dtype": "f143", "scale": [0, 1]}, "scale"), ({"dtype": "f143", "scale": [0, 1, -120]}, "scale"),
    ({"blocks": np.zeros((3, 2))}, "blocks"), ({"blocks": np.zeros((2, 2, 2))}, "column_indices"),
    ({"blocks": np.zeros((3, 2, 2), complex)}, "blocks"), ({"blocks": np.ones((3, 2, 4)), "shape": (5, 10)}, "blocks"),
    ({"blocks": [[1], [2, 3]]}, "blocks"), ({"blocks": np.zeros((3, 0, 2))}, "block_shape"),
    ({"blocks": np.array(["x"] * 3)}, "blocks"), ({"blocks": np.array([None] * 3)}, "blocks"),
]


@pytest.mark.parametrize(("wrong", "name"), BAD_PARTS, ids=lambda v: str(v)[:60])
def test_bad_parts_are_refused_by_name(wrong: dict[str, Any], name: str) -> None:
    parts = {"blocks": np.zeros((3, 2, 2), np.float32)} | GOOD | wrong
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{name}: got "):
        BlockSparseMatrix.from_blocks(parts.pop("blocks"), **parts)


def test_values_outside_the_matrix_are_refused() -> None:
    blocks = np.zeros((2, 2, 4), np.float32)
    where: Any = {"shape": (3, 6), "row_indices": [1, 0], "column_indices": [0, 1]}
    BlockSparseMatrix.from_blocks(blocks, **where)
    for index in ((0, 1, 0), (1, 0, 2)):
        wrong = blocks.copy()
        wrong[index] = np.nan
        with pytest.raises(InvalidArgumentError, match="blocks: got nan"):
            BlockSparseMatrix.from_blocks(wrong, **where)
        w = BlockSparseMatrix.from_blocks(blocks, **where)
        with pytest.raises(InvalidArgumentError, match="blocks"):
            w.update(wrong[::-1])
        assert not w.blocks.any()


@pytest.mark.parametrize("call", [
    lambda d: BlockSparseMatrix.from_dense(d, 2, density=1.5),
    lambda d: BlockSparseMatrix.from_dense(d, 2, density=float("nan")),
    lambda d: BlockSparseMatrix.from_dense(d, 2, density="all"),
    lambda d: BlockSparseMatrix.from_dense(d, 2, density=0.5, mask=np.ones((2, 2), bool)),
    lambda d: BlockSparseMatrix.from_dense(d, 2, mask=np.ones((2, 3), bool)),
    lambda d: BlockSparseMatrix.from_dense(d, 2, mask=np.ones((2, 2))),
    lambda d: BlockSparseMatrix.from_dense(d, -1),
    lambda d: BlockSparseMatrix.from_dense(d[0], 2),
    lambda d: BlockSparseMatrix.from_dense(d.astype(complex), 2),
    lambda d: BlockSparseMatrix.from_dense([[1], [2, 3]], 2),
    lambda d: BlockSparseMatrix.from_dense(d[None][:0], 2),
    lambda d: BlockSparseMatrix.from_mask(d, 2),
    lambda d: BlockSparseMatrix.from_mask(d[0] > 0, 2),
    lambda d: BlockSparseMatrix.from_mask(d > 0, 2, shape=(9, 8)),
    lambda d: BlockSparseMatrix.from_mask(d > 0, 2**15 + 1),
    lambda d: BlockSparseMatrix.from_dense(d, 2).to_dense(np.float16),
    lambda d: BlockSparseMatrix.from_dense(d, 2)[::2],
    lambda d: BlockSparseMatrix.from_dense(d, 2)[[0]],
    lambda d: BlockSparseMatrix.from_dense(d, 2)["a":],
    lambda d: BlockSparseMatrix.from_dense(d, 2).update(d),
    lambda d: BlockSparseMatrix(d, d),
    lambda d: BlockSparseMatrix(BlockPattern((4, 4), 4, [0, 1], [0]), d.tolist()),
    lambda d: BlockSparseMatrix(BlockPattern((4, 4), 4, [0, 1], [0]), d[None, ::-1]),
    lambda d: BlockSparseMatrix(BlockPattern((4, 4), 4, [0, 1], [0]), d[None].astype(np.float64)),
])  # fmt: skip
def test_bad_arguments_are_refused(call: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^[a-z_]+: got "):
        call(np.eye(4, dtype=np.float32))


def test_layouts_that_cannot_be_shared_are_copied() -> None:
    raw = np.zeros(3 * 4 * 4 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(3, 2, 2)
    misaligned[...] = np.arange(12).reshape(3, 2, 2)
    swapped = misaligned.astype(">f4")
    strided = np.zeros((3, 2, 4), np.float32)[:, ::-1, ::2]
    strided[...] = misaligned
    frozen = np.array(misaligned)
    frozen.flags.writeable = False
    made = [BlockSparseMatrix.from_blocks(v, copy=False, **(GOOD | {"shape": (6, 6)}))
            for v in (misaligned, swapped, strided, frozen)]
    assert all(w.equals(made[0]) for w in made)
    assert np.shares_memory(made[3].blocks, frozen)
    with pytest.raises(InvalidArgumentError, match="read-only"):
        made[3].update(np.zeros((3, 2, 2)))


def test_huge_dimensions_with_few_blocks() -> None:
    w = BlockSparseMatrix.from_blocks(np.ones((1, 4, 1), np.float32), shape=(8, 2**31 - 1), row_indices=[1],
                                      column_indices=[2**31 - 2])
    assert w.column_indices.tolist() == [2**31 - 2]
    assert w.T.shape == (2**31 - 1, 8)
    assert w[4:8].n_blocks == 1


def test_a_matrix_becomes_no_array_unasked() -> None:
    w = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 2, dtype="float16")
    assert (w.dtype, w.ndim) == (np.float16, len(w.shape))
    with pytest.raises(InvalidTypeError, match="to_dense"):
        np.asarray(w)
    for x, said in ((np.ones(3, np.float32), "(4,)"), (np.ones((4, 1)), "an array of float32")):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^x: got .*{re.escape(said)}"):
            w @ x
