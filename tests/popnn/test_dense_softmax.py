"""Softmax along axes: shifts, masks, what is endless, strides, threads and levels; bad input."""

import re

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import popnn, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS
from poplibs_py.kernels import kernels
from poplibs_py.testing import assert_same_bits
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(7)
X = RNG.standard_normal((5, 70, 9)).astype(np.float32)
OPS = ["softmax", "log_softmax", "scaled_softmax_stable", "softmax_grad", "log_softmax_grad"]


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=examples(25))
@given(st.data())
def test_drawn_calls_are_within_their_bounds(name, data):
    operands, keywords = data.draw(calls(f"popnn.{name}"))
    testing.check(f"popnn.{name}", *operands, **keywords)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_format_in_and_out(fmt):
    x = testing.as_format(X[0], fmt)
    for name in OPS[:3]:
        testing.check(f"popnn.{name}", x, 0, out_dtype=fmt)


def test_a_shift_that_is_exact_changes_nothing():
    x = np.round(X * 8) / 8
    np.testing.assert_array_equal(popnn.softmax(x), popnn.softmax(x + 1024))


def test_strides_and_threads_change_nothing():
    wide = RNG.standard_normal((64, 4097)).astype(np.float32)
    for x in (X, wide):
        want = popnn.softmax(x, 1)
        moved = np.asfortranarray(x)
        np.testing.assert_array_equal(popnn.softmax(moved, 1), want)
        with thread_limit(1):
            np.testing.assert_array_equal(popnn.softmax(x, 1), want)
        out = x.copy()
        assert popnn.softmax(out, 1, out=out) is out
        np.testing.assert_array_equal(out, want)
        held = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), np.float32)[..., ::-2]
        popnn.softmax(x, 1, out=held)
        np.testing.assert_array_equal(held, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("n", "width"), [(1, 40), (2, 64), (3, 17), (21, 100), (64, 16), (65, 130), (300, 65),
                                          (2048, 20), (2049, 20)])
def test_columns_have_the_bits_of_rows(n, width, dtype):
    x = (RNG.standard_normal((2, n, width)) * 3).astype(dtype)
    x[0, 0], x[1, :, 1::7], x[1, -1, ::5] = -np.inf, -np.inf, -0.0
    grad, labels = RNG.standard_normal(x.shape).astype(dtype), RNG.integers(-1, n, (2, width)).astype(np.int32)
    y, logs = popnn.softmax(x, 1), popnn.log_softmax(x, 1)
    for name, arrays in (("softmax", (x,)), ("log_softmax", (x,)), ("softmax_grad", (grad, y)),
                         ("log_softmax_grad", (grad, logs)), ("cross_entropy", (x,))):
        more = () if name != "cross_entropy" else (labels,)
        face, how = getattr(popnn, name), {"ignored_index": 1} if more else {}
        with profile() as report:
            made = face(*arrays, *more, axis=1, **how)
        assert ("columns" in report.runs[0].kernel) == (n <= 2048)
        due = face(*(np.ascontiguousarray(a.swapaxes(1, 2)) for a in arrays), *more, axis=2, **how)
        if more:
            assert_same_bits(made.loss, due.loss)
            made, due = made.deltas, due.deltas
        assert_same_bits(made, due.swapaxes(1, 2))
        if name == "softmax":
            assert_same_bits(popnn.softmax(x, 1, out=x.copy()), made)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize(("shape", "axis"), [((70, 2), 1), ((3, 30, 7), 2), ((150, 16), 1), ((20, 5, 7), 0),
                                             ((3, 9, 4, 3), 1), ((200, 20), -1), ((129, 17), 1)])
def test_short_rows_are_brought_to_columns_with_the_bits_of_rows(shape, axis, dtype):
    x, grad = ((RNG.standard_normal(shape) * 3).astype(dtype) for _ in range(2))
    n, classes = shape[axis], [size for d, size in enumerate(shape) if d != axis % len(shape)]
    labels = RNG.integers(-1, n, classes).astype(np.int32)

    def apart(face, *arrays, more=None):
        """The same, of so few rows that each is taken by itself."""
        rows = [np.moveaxis(a, axis, -1).reshape(-1, n) for a in arrays] + ([] if more is None else [more.reshape(-1)])
        made = [face(*(a[i:i + 9] for a in rows), axis=1) for i in range(0, len(rows[0]), 9)]
        parts = [made] if more is None else [[one.loss for one in made], [one.deltas for one in made]]
        joined = [np.concatenate(one).reshape(*classes, *one[0].shape[1:]) for one in parts]
        return [np.moveaxis(one, -1, axis) if one.ndim == len(shape) else one for one in joined]

    for name, arrays in (("softmax", (x,)), ("log_softmax", (x,)), ("softmax_grad", (grad, x)),
                         ("log_softmax_grad", (grad, x))):
        face = getattr(popnn, name)
        for lies in (np.ascontiguousarray, np.asfortranarray, lambda a: a[::-1].copy()[::-1]):
            with profile() as report:
                made = face(*map(lies, arrays), axis=axis)
            how = "brought to columns" if axis and lies is np.ascontiguousarray else "columns"
            assert how in str(report.runs[0].plan.explain())
            assert_same_bits(made, apart(face, *arrays)[0])
    if dtype is not ml_dtypes.float8_e4m3fn:
        with profile() as report:
            made = popnn.cross_entropy(x, labels, axis=axis)
        alone = dtype is np.float32 and axis % len(shape) == len(shape) - 1
        assert ("brought to columns" in str(report.runs[0].plan.explain())) == alone
        for own, due in zip((made.loss, made.deltas), apart(popnn.cross_entropy, x, more=labels), strict=True):
            assert_same_bits(own, due)


def test_what_powers_are_not_of_numbers_as_they_are_is_taken_row_by_row():
    x, labels = RNG.standard_normal((4, 8, 40)).astype(np.float32), np.zeros((4, 40), np.int32)
    for call in (lambda: popnn.softmax(x, 1, scale=2.0), lambda: popnn.softmax(x, 1, mask=x > 0),
                 lambda: popnn.cross_entropy(x, labels, axis=1, label_smoothing=0.1),
                 lambda: popnn.cross_entropy(x, labels, np.ones(8, np.float32), 1)):
        with profile() as report:
            call()
        assert "columns" not in report.runs[0].kernel


def test_a_mask_leaves_out_what_it_does_not_name():
    mask = RNG.random((70, 1)) < 0.5
    kept = popnn.softmax(X[:, mask[:, 0]], 1)
    got = popnn.softmax(X, 1, mask=mask)
    np.testing.assert_allclose(got[:, mask[:, 0]], kept, rtol=1e-5)  # sums in another order
    assert (got[:, ~mask[:, 0]] == 0).all()
    assert (popnn.softmax(X, mask=False) == 0).all()
    assert (popnn.log_softmax(X, mask=False) == -np.inf).all()


def test_what_is_endless():
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(popnn.softmax([-inf, 0.0, -inf]), [0, 1, 0])
    assert np.isnan(popnn.softmax([inf, 0.0])).all()
    assert np.isnan(popnn.softmax([nan, 0.0])).all()
    np.testing.assert_array_equal(popnn.softmax([3e38, -3e38]), [1, 0])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_of_every_size(dtype):
    """However far from zero the greatest is, those that are less by a unit of its last place have their share."""
    info = ml_dtypes.finfo(dtype)
    for top in (info.max, info.max / 4, 2.0**15, 1.0, info.tiny):
        x = np.full(70, -np.inf, np.float32)
        x[:3], x[40], x[69] = top, -top, np.nextafter(dtype(top), dtype(-np.inf))
        for row in (x, np.where(np.isinf(x), x, np.minimum(-x, -top))):
            row = row.astype(dtype)
            testing.check("popnn.softmax", row)
            most = row == row.max()
            if top >= 2.0**15 and dtype != np.float16:
                np.testing.assert_array_equal(popnn.softmax(row).astype(np.float32), (most / most.sum()).astype(dtype))


@pytest.mark.parametrize("level", sorted({k.level for k in kernels("rows") if k.formats == "float32"} - {"portable"}))
@pytest.mark.parametrize("name", OPS)
def test_all_levels_give_the_same_bits(name, level, rows_at):
    """Whole calls whose kernels are of one level, of rows of any length."""
    def run(chosen, x):
        return rows_at(chosen, "float32", name, *(x,) * (1 + name.endswith("grad")), scale=0.5)

    for n in (1, 31, 64, 100, 2100):
        x = RNG.standard_normal((3, n)).astype(np.float32)
        assert run("portable", x) == run(level, x)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_codes_of_any_sign_and_number_have_the_greatest_that_their_numbers_have(dtype):
    """Columns are decoded first, codes of rows are compared as they lie: all below zero, endless, NaN."""
    for n in (1, 5, 8, 15, 16, 17, 31, 32, 33, 47, 64, 100):
        x = (30 * RNG.standard_normal((9, n))).astype(dtype)
        x[1], x[2], x[3] = -abs(x[1]), abs(x[2]), -np.inf
        x[4, n // 2], x[5, -1], x[6, 0] = -np.inf, np.nan, -np.float32(np.nan)
        x[7], x[8, n // 3] = -100 * abs(x[7]), np.inf
        for op in (popnn.softmax, popnn.log_softmax):
            np.testing.assert_array_equal(op(x).astype(np.float32), op(np.asfortranarray(x)).astype(np.float32))


@pytest.mark.parametrize("level", sorted({k.level for k in kernels("rows") if k.formats == "bfloat16"} - {"avx2"}))
def test_all_levels_round_bf16_alike(level, rows_at):
    """Subnormal results too, infinities and NaN."""
    rng = np.random.default_rng(1)
    x = (40 * rng.standard_normal((9, 300))).astype(ml_dtypes.bfloat16)
    gamma = (rng.standard_normal(300) * 2.0 ** rng.integers(-133, -120, 300)).astype(ml_dtypes.bfloat16)
    x[5], x[6] = -abs(x[5]), (1e36 * x[6].astype(np.float32)).astype(x.dtype)
    x[7, 3], x[8, 5] = np.nan, np.inf
    for name, operands in (("softmax", (x,)), ("log_softmax", (x,)), ("softmax_grad", (x, x)),
                           ("layer_norm", (x, gamma, gamma)), ("layer_norm_grad", (x[::-1], x, gamma))):
        assert rows_at("avx2", "bfloat16", name, *operands) == rows_at(level, "bfloat16", name, *operands)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: popnn.softmax(X.astype(float)), InvalidTypeError, "x: got dtype float64"),
    (lambda: popnn.softmax(X, 3), InvalidArgumentError, "axis: got 3; allowed: a whole number from -3 to 2"),
    (lambda: popnn.softmax(X, mask=np.ones(8, bool)), InvalidArgumentError, "mask: got shape (8,)"),
    (lambda: popnn.softmax(X, mask=np.ones(9)), InvalidTypeError, "mask: got dtype float64"),
    (lambda: popnn.softmax(X, scale=np.inf), InvalidArgumentError, "scale: got inf"),
    (lambda: popnn.softmax_grad(X, X[0]), InvalidArgumentError, "y: got shape (70, 9)"),
])
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error, match="^" + re.escape(words)):
        call()


@pytest.mark.parametrize(("shape", "pitch"), [((4, 5), 22), ((16, 16), 67), ((3, 300), 1201)])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_results_that_lie_no_whole_numbers_apart(shape, pitch, axis):
    held = np.full(shape[0] * pitch, 0xFF, np.uint8)
    for strides in ((pitch, 4), (4, pitch)):
        out = np.ndarray(shape if strides[1] == 4 else shape[::-1], np.float32, held, 0, strides)
        x = np.random.default_rng(0).standard_normal(out.shape).astype(np.float32)
        held[:] = 0xFF
        assert_same_bits(popnn.softmax(x, axis=axis, out=out), popnn.softmax(x, axis=axis))
        assert (held.reshape(shape[0], pitch)[:, 4 * shape[1]:] == 0xFF).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_logarithm_of_a_share_that_is_all_is_zero(dtype):
    x = testing.as_format(np.linspace(-300, 300, 801, dtype=np.float32)[:, None], dtype)
    assert not popnn.log_softmax(x, out_dtype="float32").any()
    assert not popnn.log_softmax(x, out_dtype="float32", scale=0.5).any()
    beside = np.concatenate([x, x - np.asarray(1000, x.dtype)], 1)
    assert not popnn.log_softmax(beside, out_dtype="float32")[:, 0].any()
