"""Orders of rows: NumPy's order, ties, NaNs, zeros, axes, levels, threads, out, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popops
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import BF16, F143, FP16, FP32, QuarterArray
from poplibs_py.kernels import Selection, kernels
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue
from poplibs_py.popops.ordering import lower as _order
from poplibs_py.testing import as_format, check

KINDS = [*(np.dtype(kind) for kind in "?bBhHiIqQ"), FP32, FP16, BF16, F143]
EXTENTS = (1, 8, 17, 64, 129, 257, 1100, 5000)
NAMES = ("argpartition", "argsort", "partition", "sort", "sort_key_value", "top_k", "top_k_key_value",
         "top_k_with_permutation")
LEVELS = sorted({k.level for k in kernels("sort")})


def numbers(kind, shape, seed=0, few=False):
    rng = np.random.default_rng(seed)
    if not isinstance(kind, np.dtype):
        x = rng.standard_normal(shape)
        x = np.round(x) * rng.choice([-1, 1], shape) if few else x  # zeros of both signs
        x[rng.random(shape) < 0.1] = np.nan
        return as_format(np.where(rng.random(shape) < 0.05, np.inf, x), kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    info = np.iinfo(kind)
    return rng.integers(0, 9, shape, kind) if few else rng.integers(info.min, info.max, shape, kind, endpoint=True)


def plain(x):
    """What NumPy orders as well as the numbers themselves."""
    with np.errstate(invalid="ignore"):
        return x if x.dtype.kind in "biu" else x.astype(np.float32)


def bits(results):
    return [np.asarray(x).tobytes() for x in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("few", [False, True])
def test_the_order_is_numpys(kind, few):
    for n in EXTENTS:
        x = numbers(kind, (2, n), n, few)
        np.testing.assert_array_equal(popops.argsort(x), np.argsort(plain(x), kind="stable"))
        np.testing.assert_array_equal(plain(popops.sort(x)), np.sort(plain(x)))
        assert bits(popops.sort(x, descending=True)) == bits(popops.sort(x)[:, ::-1].copy())
        for kth in {0, n // 3, n - 1}:
            y = popops.partition(x, kth)
            assert bits(y) == bits(np.take_along_axis(x, popops.argpartition(x, kth), 1))
            due = np.sort(plain(x))
            np.testing.assert_array_equal(plain(y)[:, kth], due[:, kth])
            np.testing.assert_array_equal(np.sort(plain(y)[:, :kth]), due[:, :kth])
            check("argpartition", x, kth)
        for k in {1, min(3, n), n // 2, n}:
            check("top_k_with_permutation", x, k)
            check("top_k_with_permutation", x, k, largest=False, sort_order="descending")


def test_results_are_codes_of_the_operand():
    for fmt in (FP16, BF16):
        codes = np.random.default_rng(1).permutation(1 << 16).astype(np.uint16)
        for x in (codes, np.tile(codes, 3)):  # those of few rows are sorted, those of many counted
            made = popops.sort(x.view(fmt.dtype)).view(np.uint16)
            np.testing.assert_array_equal(np.sort(made), np.sort(x))
            values = made.view(fmt.dtype).astype(np.float32)
            numbers = values[~np.isnan(values)]
            assert (np.diff(numbers[np.isfinite(numbers)]) >= 0).all()
            assert np.isnan(values[numbers.size:]).all()
            zeros = np.signbit(values[values == 0])
            assert (np.diff(zeros.astype(int)) <= 0).all()
    x = np.uint32([0x7fc00001, 0xffc00000, 0x80000000, 0, 0x7f800001, 0x80000000]).view(np.float32)
    assert popops.sort(x).view(np.uint32).tolist() == [0x80000000, 0x80000000, 0, 0x7f800001, 0x7fc00001, 0xffc00000]
    best = popops.top_k_with_permutation(x, 6)
    assert best.indices.tolist() == [0, 1, 4, 2, 3, 5]
    assert bits(best.values) == bits(x[best.indices])


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_wide_integers_whose_halves_are_equal(kind):
    rng, limits = np.random.default_rng(2), np.iinfo(kind)
    x = (rng.integers(0, 3, (2, 400)) * 2**33 + rng.integers(0, 4, (2, 400))).astype(kind)
    for first, last in ((limits.min, limits.max), (limits.max - 2**32, limits.max), (5, 2**32 + 4), (5, 2**32 + 5)):
        y = rng.integers(first, last, (3, 2000), kind, endpoint=True)
        y[1, ::7], y[1, 1::7], y[2, ::2] = first, last, y[2, 1::2] + np.sign(rng.integers(-1, 2, 1000)).astype(kind)
        for how, due in (({}, np.argsort(y, kind="stable")),
                         ({"descending": True}, 1999 - np.argsort(y[:, ::-1], kind="stable")[:, ::-1])):
            np.testing.assert_array_equal(popops.argsort(y, **how), due)
        check("sort_key_value", y, y, descending=True)
    for order in ("ascending", "descending"):
        for largest in (False, True):
            check("top_k_with_permutation", x, 50, largest=largest, sort_order=order)
    check("argpartition", x, 100)
    check("sort_key_value", x, x, descending=True)


@pytest.mark.parametrize("pattern", ["rising", "falling", "equal", "pipe", "two", "saw"])
def test_patterns_are_sorted_too(pattern):
    n = 30000
    i = np.arange(n)
    x = {"rising": i, "falling": -i, "equal": i * 0, "pipe": np.minimum(i, n - i), "two": i % 2,
         "saw": i % 100}[pattern].astype(np.float32)
    np.testing.assert_array_equal(popops.sort(x), np.sort(x))
    np.testing.assert_array_equal(popops.argsort(x), np.argsort(x, kind="stable"))
    for k in (1, 7, 400):
        np.testing.assert_array_equal(popops.top_k_with_permutation(x, k, largest=False).indices,
                                      np.argsort(x, kind="stable")[:k])


@pytest.mark.parametrize("name", NAMES)
def test_rows_may_lie_anyhow(name):
    x = numbers(FP32, (6, 33, 5))
    face, more = getattr(popops, name), (3,) if name.startswith("top") or "partition" in name else ()

    def call(y, axis, how):
        operands = (y, y) if name.endswith("key_value") else (y,)
        return face(*operands, *more, axis, **how)

    other = {"sort_order": "ascending"} if name.startswith("top") else {"descending": True}
    for how in ({}, other if "partition" not in name else {}):
        due = call(x, 1, how)
        for y in (np.asfortranarray(x), np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1], np.repeat(x, 2, 1)[:, ::2]):
            assert bits(call(y, 1, how)) == bits(due)
        first = call(np.moveaxis(x, 1, 0), 0, how)
        parts = first if isinstance(first, tuple) else (first,)
        assert bits(tuple(np.moveaxis(part, 0, 1) for part in parts)) == bits(due)
        assert bits(call(x.T, None, how)) == bits(call(x.T.copy(), None, how)) == bits(call(x.T.ravel(), -1, how))
    for threads in (1, 2, 5):
        with thread_limit(threads):
            assert bits(call(np.tile(x, (40, 1, 1)), 1, {})) == bits(call(np.tile(x, (40, 1, 1)), -2, {}))


@pytest.mark.parametrize("kinds", [1, 3, 100, 10**6])
@pytest.mark.parametrize("n", [150, 513, 1000])
@pytest.mark.parametrize("k", [2, 5, 32, 33])
def test_the_best_few_of_rows_are_the_first_of_their_order(kinds, n, k):
    """Rows of equal numbers, of several, of many: the first limit is among them, and may be the last key."""
    x = np.random.default_rng(k).integers(-kinds, kinds, (7, n)).astype(np.float32)
    x[0] = np.nan
    for largest in (True, False):
        order = popops.argsort(x, 1, descending=largest)[:, :k]
        best = popops.top_k_with_permutation(x, k, largest=largest)
        np.testing.assert_array_equal(best.indices, order)
        np.testing.assert_array_equal(best.values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("kind", [FP32, FP16, BF16, F143, np.dtype("uint16"), np.dtype("int32")], ids=str)
@pytest.mark.parametrize("few", [False, True])
def test_the_best_of_rows_of_any_length_are_the_first_of_their_order(kind, few):
    """Rows of no line and of many, with ends that fill none; of blocks of one line and of several; dropped words."""
    for n in (31, 66, 129, 511, 1000, 20011):
        x = numbers(kind, (3, n), n, few)
        x[1] = np.sort(x[1])
        for y in (x, np.repeat(x, 2, 1)[:, ::2]):
            for largest in (True, False):
                order = popops.argsort(y, 1, descending=largest)
                for k in {1, 10, 24, min(n, 700)}:
                    np.testing.assert_array_equal(popops.top_k_with_permutation(y, k, largest=largest).indices,
                                                  order[:, :k])


@pytest.mark.parametrize("level", LEVELS)
def test_levels_give_the_same_bits(level, monkeypatch):
    operands = [numbers(kind, (2, n), few=few) for kind in (FP32, FP16, F143, np.dtype(np.int64))
                for n in (40, 700, 3000) for few in (False, True)]

    def run(level):
        monkeypatch.setattr(_order, "select", lambda family, op, formats: Selection(
            next(k for k in kernels(family) if (k.level, k.op) == (level, op)), ()))
        forget()
        return [bits(made) for x in operands for made in (
            popops.sort(x), popops.argsort(x), *(popops.top_k_with_permutation(x, k) for k in (1, 20)),
            popops.top_k_with_permutation(x, 20, largest=False), popops.sort_key_value(x, x),
            popops.argpartition(x, 11))]

    due = run("portable")
    assert run(level) == due
    forget()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["normal", "few", "far", "rising", "equal", "int64"])
def test_long_rows_are_dealt_out_in_parts(kind, level, monkeypatch):
    """Beyond the caches, by the highest bits: of many numbers, of one, of some far from all others."""
    monkeypatch.setattr(_order, "select", lambda family, op, formats: Selection(
        next(k for k in kernels(family) if (k.level, k.op) == (level, op)), ()))
    forget()
    n = (16 << 20) // (8 if kind == "int64" else 4) + 77  # POP_LONG_BYTES
    rng = np.random.default_rng(1)
    x = {"few": lambda: np.round(rng.standard_normal(n)) * rng.choice([-1, 1], n), "rising": lambda: np.arange(n),
         "equal": lambda: np.ones(n), "int64": lambda: rng.integers(-2**62, 2**62, n),
         }.get(kind, lambda: rng.standard_normal(n))().astype("int64" if kind == "int64" else "float32")
    if kind == "far":
        x[5::n // 3] = np.nan, -np.inf, np.inf
    due = np.sort(x)
    made = popops.sort(x)
    np.testing.assert_array_equal(made, due)
    assert bits(popops.sort(x[:, None], 0)) == bits(made)
    assert bits(popops.sort(x, descending=True)) == bits(made[::-1].copy())
    y = x[:n // 2 + 40]
    order = popops.argsort(y)
    np.testing.assert_array_equal(order, np.argsort(y, kind="stable"))
    if kind in ("few", "int64"):
        backwards = y.size - 1 - np.argsort(y[::-1], kind="stable")[::-1]
        np.testing.assert_array_equal(popops.argsort(y, descending=True), backwards)
        assert bits(popops.sort_key_value(y, y).values) == bits(y[order])
    forget()


def test_out_receives_results_and_may_be_the_operand():
    x = numbers(FP16, (4, 50))
    due, places = popops.sort(x), popops.argsort(x)
    out = np.empty((4, 100), np.float16)[:, ::2]
    assert popops.sort(x, out=out) is out
    assert bits(out.copy()) == bits(due)
    same = x.copy()
    assert popops.sort(same, out=same) is same
    assert bits(same) == bits(due)
    held = np.empty((4, 50), np.int64)
    assert popops.argsort(x, out=held) is held
    assert bits(held) == bits(places)
    keys, values = np.empty_like(x), np.empty((4, 50), np.int8)
    made = popops.sort_key_value(x, np.ones((4, 50), np.int8), out=(keys, values))
    assert made.keys is keys
    assert bits(keys) == bits(np.take_along_axis(x, places, 1))


def test_bad_input_is_refused_by_name():
    x, q = numbers(FP32, (3, 4)), QuarterArray.from_array([[1.0, 2.0]], "f143")
    for call, kind, words in [
        (lambda: popops.sort(x, 2), InvalidArgumentError, "axis: got 2"),
        (lambda: popops.sort(np.float32(1)), InvalidArgumentError, "axis"),
        (lambda: popops.sort(x, 1.5), InvalidTypeError, "axis"),
        (lambda: popops.sort(x.astype(float)), InvalidTypeError, "float32"),
        (lambda: popops.sort(q), InvalidTypeError, "to_array"),
        (lambda: popops.sort(x, descending=1), InvalidTypeError, "descending"),
        (lambda: popops.sort(x, out=np.empty((3, 4), np.float16)), InvalidArgumentError, "out"),
        (lambda: popops.argsort(x, out=np.empty((3, 4), np.int32)), InvalidTypeError, "out"),
        (lambda: popops.partition(x, 4), InvalidArgumentError, "kth: got 4"),
        (lambda: popops.partition(x[:0], 0, 0), InvalidArgumentError, "x: got no elements"),
        (lambda: popops.top_k(x, 5), InvalidArgumentError, "k: got 5"),
        (lambda: popops.top_k(x, None), InvalidTypeError, "k: got None"),
        (lambda: popops.top_k(x, -1), InvalidArgumentError, "k: got -1"),
        (lambda: popops.top_k(x, 2, sort_order="up"), InvalidArgumentError, "sort_order: got up"),
        (lambda: popops.sort_key_value(x, x[:2]), InvalidArgumentError, "values: got shape"),
        (lambda: popops.sort_key_value(x, x, out=(x,)), InvalidArgumentError, "out"),
        (lambda: popops.partition(x, 2, target="gc200"), UnsupportedError, "popops.partition"),
    ]:
        with pytest.raises(kind, match=words):
            call()


def test_nothing_is_sorted_too():
    for shape, axis in (((0,), 0), ((0, 3), 0), ((0, 3), 1), ((3, 0), None)):
        x = np.empty(shape, np.float32)
        assert popops.sort(x, axis).size == popops.argsort(x, axis).size == 0
    assert popops.top_k(np.ones((2, 3), np.float32), 0).shape == (2, 0)
    assert all(catalogue[f"popops.{name}"].poplibs or name.startswith(("arg", "part")) for name in NAMES)
