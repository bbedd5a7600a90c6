"""One-hot rows, iota, fill, images, splines, circular buffers: NumPy's results, special values, out, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popops
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import F143, QuarterArray
from poplibs_py.testing import assert_same_bits, check

RNG = np.random.default_rng(20261122)


def test_one_hot_rows_have_any_type():
    indices = np.uint32([[0, 2], [2**32 - 1, 3]])
    for dtype in ("float32", "float16", "bfloat16", "f143", "int32", "uint8", "bool"):
        made = popops.encode_one_hot(indices, 3, dtype=dtype)
        assert made.shape == (2, 2, 3)
        np.testing.assert_array_equal(made.astype(float), [[[1, 0, 0], [0, 0, 1]], [[0, 0, 0]] * 2])
    got = check("encode_one_hot", np.int8([1, -1]), 2, on=0.1, off=-1e9, dtype="float16")
    assert got[0, 0] == -np.inf
    out = np.empty((2, 6), np.int64)[:, ::2]
    assert popops.encode_one_hot(np.array([2, 1]), 3, on=7, out=out) is out
    assert out.tolist() == [[0, 0, 7], [0, 7, 0]]


def test_numbers_are_counted_and_filled():
    assert popops.iota(3, 253, dtype="uint8").tolist() == [253, 254, 255]
    out = np.empty(4, np.uint64)
    assert popops.iota(4, 2**64 - 4, out=out)[-1] == 2**64 - 1
    q = QuarterArray.from_array(np.ones((2, 3), np.float32), F143, scale=2)
    assert popops.fill((2, 3), 6.0, out=q) is q
    assert (q.to_array() == 6).all()
    strided = np.zeros((4, 4), np.float16)
    popops.fill((2, 4), np.nan, out=strided[::2])
    assert np.isnan(strided[::2]).all()
    assert not strided[1::2].any()
    assert popops.fill((), 3, dtype=np.int64) == 3
    assert popops.fill(2, True, dtype=bool).tolist() == [True, True]


def test_splines_of_points_everywhere():
    points = np.float32([[0.0], [1.0], [np.nan], [np.inf], [-0.3], [1e30]])
    for degree in (1, 2, 3):
        got = check("spline_basis", points, [5], [1], degree)
        finite = np.isfinite(points[:, 0])
        np.testing.assert_allclose(got.basis[finite].sum(1), 1, atol=4 * np.finfo(np.float32).eps)
        assert np.isnan(got.basis[~finite]).all()
        assert ((got.weight_index >= 0) & (got.weight_index < 5)).all()


def test_kept_calls_of_splines_read_sizes_and_nodes_anew():
    points, sizes, ends = np.float32([[0.25, 0.7]]), np.array([5, 3]), np.array([1, 0])
    x, weight, basis, nodes = (np.ones(shape, np.float32) for shape in ((1, 3), (15, 3, 2), (1, 4), (1, 4)))
    weight *= np.arange(15, dtype=np.float32)[:, None, None]
    nodes, out = nodes.astype(np.int32), np.zeros((1, 2), np.float32)
    before = popops.spline_basis.kept, popops.spline_weighting.kept
    for size in (5, 4, 5):
        sizes[0] = size
        due = popops.spline_basis(points, [size, 3], [1, 0])
        for _ in range(3):
            made = popops.spline_basis(points, sizes, ends)
            assert [y.tobytes() for y in made] == [y.tobytes() for y in due]
            nodes[...] = made.weight_index
            popops.spline_weighting(x, weight, basis, nodes, out=out)
            np.testing.assert_array_equal(out, np.full((1, 2), 3 * nodes.sum()))
    assert (popops.spline_basis.kept, popops.spline_weighting.kept) == (before[0] + 1, before[1] + 1)
    for wrong, words in ((0, "kernel_size: got 0"), (2**40, "kernel_size: got 1099511627776")):
        sizes[0] = wrong
        with pytest.raises(InvalidArgumentError, match=words):
            popops.spline_basis(points, sizes, ends)
    sizes[0], ends[0], nodes[0, 0], held = 5, 2, 15, out.copy()
    with pytest.raises(InvalidArgumentError, match="is_open: got 2"):
        popops.spline_basis(points, sizes, ends)
    with pytest.raises(InvalidArgumentError, match=r"weight_index: got numbers from .* to 15; allowed: 0 to 14"):
        popops.spline_weighting(x, weight, basis, nodes, out=out)
    np.testing.assert_array_equal(out, held)


def test_edges_are_weighted_like_the_formula():
    x, weight = RNG.integers(-4, 5, (50, 3)).astype(np.float32), RNG.integers(-4, 5, (6, 3, 2)).astype(np.float16)
    basis, nodes = RNG.integers(0, 3, (50, 4)).astype(np.float32), RNG.integers(0, 6, (50, 4))
    due = np.einsum("es,ei,esio->eo", basis, x, weight.astype(np.float32)[nodes])
    assert_same_bits(popops.spline_weighting(x, weight, basis, nodes), due)
    assert popops.spline_weighting(x[:0], weight, basis[:0], nodes[:0]).shape == (0, 2)


def test_a_circular_buffer_holds_the_last():
    buffer, all_of_them = popops.CircBuf(3, (2, 2), dtype="float16"), RNG.standard_normal((8, 2, 2)).astype(np.float16)
    assert not buffer.prev(2).any()
    for n, x in enumerate(all_of_them):
        buffer.add(x)
        assert buffer.index == (n + 1) % 3
        for i in range(min(3, n + 1)):
            assert_same_bits(buffer.prev(i), all_of_them[n - i])
    held = buffer.prev(1)
    held[...] = 0
    assert_same_bits(buffer.prev(1), all_of_them[-2])
    out = np.empty((2, 4), np.float16)[:, ::2]
    assert buffer.prev(0, out=out) is out
    with pytest.raises(InvalidArgumentError, match="i: got 3"):
        buffer.prev(3)
    with pytest.raises(InvalidArgumentError, match="x: got float32 of shape"):
        buffer.add([[1.0, 2.0], [3.0, 4.0]])


def test_bad_input_is_refused_by_name():
    x, nodes = np.ones((2, 3), np.float32), np.zeros((2, 1), int)
    for call, kind, words in [
        (lambda: popops.pad(x, (1, 2, 3)), InvalidArgumentError, "pad_width"),
        (lambda: popops.pad(x, 0.5), InvalidTypeError, "pad_width"),
        (lambda: popops.pad(x, ((-2, -1), (0, 0))), InvalidArgumentError, "pad_width: got "),
        (lambda: popops.pad(x, 1, "mirror"), InvalidArgumentError, "mode: got mirror"),
        (lambda: popops.pad(x[:0], 1, "edge"), InvalidArgumentError, "x: got no elements along axis 0"),
        (lambda: popops.pad(x.astype(int), 1, constant_values=0.5), InvalidTypeError, "constant_values"),
        (lambda: popops.pad(x, 1, out=np.empty((4, 5), np.float16)), InvalidArgumentError, "out"),
        (lambda: popops.encode_one_hot(x, 3), InvalidTypeError, "indices"),
        (lambda: popops.encode_one_hot(nodes, -1), InvalidArgumentError, "length: got -1"),
        (lambda: popops.encode_one_hot(nodes, 2, on=300, dtype="uint8"), InvalidArgumentError, "on: got 300"),
        (lambda: popops.encode_one_hot(nodes, 2, dtype="float64"), InvalidTypeError, "dtype"),
        (lambda: popops.iota(3, 254, dtype="uint8"), InvalidArgumentError, "n: got 3"),
        (lambda: popops.iota(3, dtype="float32"), InvalidTypeError, "dtype: got float32"),
        (lambda: popops.fill((2, -1), 0), InvalidArgumentError, "shape: got -1"),
        (lambda: popops.fill(2, "a"), InvalidTypeError, "value"),
        (lambda: popops.normalise_image(x[:, :2], x[0], x[0]), InvalidArgumentError, "x: got shape"),
        (lambda: popops.normalise_image(x, x[0], x[0], 0.0), InvalidArgumentError, "in_scale: got 0"),
        (lambda: popops.spline_basis(x, [2, 2], [0, 0, 0]), InvalidArgumentError, "kernel_size"),
        (lambda: popops.spline_basis(x, [2, 2, 0], [0, 0, 0]), InvalidArgumentError, "kernel_size: got 0"),
        (lambda: popops.spline_basis(x, [2, 2, 2], [0, 0, 0], 4), InvalidArgumentError, "degree: got 4"),
        (lambda: popops.spline_weighting(x, np.ones((1, 3, 2), np.float32), x[:, :1], nodes + 1),
         InvalidArgumentError, "weight_index: got numbers from 1 to 1"),
        (lambda: popops.CircBuf(0, 3), InvalidArgumentError, "size: got 0"),
        (lambda: popops.pad(x, 1, "wrap", target="gc200"), UnsupportedError, "popops.pad"),
    ]:
        with pytest.raises(kind, match=words):
            call()
