"""Numbers that each call has of its own, scales and constants of maps: another one runs the same program."""

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popops
from poplibs_py.errors import PoplibsError
from poplibs_py.formats import FP16
from poplibs_py.popops.expr import _1, _2, _3, with_words
from poplibs_py.popops.maps.lower import lowered
from poplibs_py.testing import assert_same_bits

RNG = np.random.default_rng(8)
X, Y = (RNG.standard_normal(300).astype(np.float32) for _ in range(2))
WHOLE = RNG.integers(-99, 99, 300).astype(np.int32)
SCALES = [0.3, -0.7, 1e-40, 3.1e38, 1 / 3, 5, -7, 1000003, np.float64(0.1), 1, 2, -0.5, 0.0, -0.0, 4]
TABLE, UPDATES, INDICES = X[:64].reshape(16, 4), Y[:32].reshape(8, 4), np.array([0, 3, 3, 15, 2, 0, 9, 3])


def added(table, updates, scale):
    due = table.copy()
    with np.errstate(over="ignore"):
        for row, update in zip(INDICES, updates, strict=True):
            due[row] += table.dtype.type(scale) * update
    return due


swish = popops.compile_map(lambda x, y, scale: x * 0.3 - y * scale)
ROWS = {
    "scaled_add": (lambda s: popops.scaled_add(X, Y, s), lambda s: X + np.float32(s) * Y),
    "scaled_add of both": (lambda s: popops.scaled_add(X, Y, 0.3, scale_a=s),
                           lambda s: np.float32(s) * X + np.float32(0.3) * Y),
    "scaled_subtract": (lambda s: popops.scaled_subtract(X, Y, scale=s), lambda s: X - np.float32(s) * Y),
    "x_minus_ax_plus_by": (lambda s: popops.x_minus_ax_plus_by(X, Y, s, 0.7),
                           lambda s: X - np.float32(s) * X + np.float32(0.7) * Y),
    "map": (lambda s: popops.map(_1 * _2 + 0.7, X, s), lambda s: X * np.float32(s) + np.float32(0.7)),
    "compiled map": (lambda s: swish(X, Y, s), lambda s: X * np.float32(0.3) - Y * np.float32(s)),
    "add": (lambda s: popops.add(X, s), lambda s: X + np.float32(s)),
    "sub of a number": (lambda s: popops.sub(s, X), lambda s: np.float32(s) - X),
    "maximum": (lambda s: popops.maximum(X, s), lambda s: np.maximum(X, np.float32(s))),
    "expression": (lambda s: popops.map((_1 + s) * _2 + s, X, Y), lambda s: (X + np.float32(s)) * Y + np.float32(s)),
    "multi_update_add": (lambda s: popops.multi_update_add(TABLE, UPDATES, INDICES, s),
                         lambda s: added(TABLE, UPDATES, s)),
    "scatter": (lambda s: popops.scatter(TABLE, INDICES, UPDATES, operation="add", scale=s),
                lambda s: added(TABLE, UPDATES, s)),
}
FACES = {"scaled_add of both": "scaled_add", "sub of a number": "sub", "expression": "map"}


@pytest.mark.parametrize("name", ROWS)
def test_a_number_is_as_exact_as_a_constant_and_no_other_kind_of_call(name):
    call, due = ROWS[name]
    face = swish if name == "compiled map" else getattr(popops, FACES.get(name, name))
    with np.errstate(all="ignore"):
        for scale in SCALES:
            assert_same_bits(call(scale), due(scale))
    kept = face.kept
    if name not in ("map", "compiled map"):  # where it is an array
        call(np.float32(0.3))
        kept = face.kept
    for scale in (0.123, -11.7, 3e-5, 1 / 7, 65537.5, np.float32(0.77)):
        assert_same_bits(call(scale), due(scale))
    assert face.kept == kept


def test_functions_of_slices_have_numbers_of_their_own():
    table, indices, updates = X[:8].copy(), np.array([2, 0, 2]), Y[:3]
    for scale in (0.3, 0.7, 0.3, 2.0):
        due = table.copy()
        for i, u in zip(indices, updates, strict=True):
            due[i] = due[i] * np.float32(scale) + u
        for operation in (_1 * scale + _2, lambda old, new, scale=scale: old * scale + new):
            assert_same_bits(popops.scatter(table, indices, updates, operation=operation), due)


def test_whole_numbers_are_the_same_program_by_how_many_bits_they_have():
    for scale in (3, -3, 7, 100, -12345, 77):
        np.testing.assert_array_equal(popops.scaled_add(WHOLE, WHOLE, scale), WHOLE + np.int32(scale) * WHOLE)
        np.testing.assert_array_equal(popops.map(_1 * scale - _2, WHOLE, 9), WHOLE * np.int32(scale) - np.int32(9))
        np.testing.assert_array_equal(popops.mul(WHOLE, scale), WHOLE * np.int32(scale))
        assert_same_bits(popops.mul(X, scale), X * np.float32(scale))
        assert_same_bits(popops.add(1.5, scale), np.float32(1.5 + scale))
        table, updates = WHOLE[:64].reshape(16, 4), WHOLE[64:96].reshape(8, 4)
        got = popops.multi_update_add(table, updates, INDICES, scale)
        np.testing.assert_array_equal(got, added(table, updates, scale))
    kept = popops.scaled_add.kept
    popops.scaled_add(WHOLE, WHOLE, 99)
    assert popops.scaled_add.kept == kept


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_numbers_are_rounded_once_where_each_step_is(dtype):
    x, y = X.astype(dtype), Y.astype(dtype)
    for scale in (0.3, 1 / 3, 1e-7, 1 + 2**-11 + 2**-40, 7, 70001, -0.1):
        with np.errstate(all="ignore"):
            due = (x * np.float64(scale).astype(dtype)).astype(dtype) + y
        assert_same_bits(popops.map(_1 * scale + _2, x, y, round_each=True), due)
        assert_same_bits(popops.map(_1 * _2 + _3, x, scale, y, round_each=True), due)
        with np.errstate(all="ignore"):
            assert_same_bits(popops.mul(x, scale), (x * np.float64(scale).astype(dtype)).astype(dtype))
            few = x[:3].reshape(3, 1)
            assert_same_bits(popops.sub(scale, few), (np.float64(scale).astype(dtype) - few).astype(dtype))


def test_a_number_of_numpys_has_its_own_type():
    half = X.astype(np.float16)
    for scale in map(np.float32, (0.3, 0.7, -1e-3, 0.5, np.inf)):
        assert_same_bits(popops.mul(half, scale), half * scale)
        assert popops.mul(half, scale).dtype == np.float32
        assert popops.mul(half, float(scale)).dtype == np.float16


def test_one_number_is_of_several_types():
    for number in (3, 5, 300):
        real, whole = popops.map(lambda x, i, n: (x * n, i + n), X, WHOLE, number)
        assert_same_bits(real, X * np.float32(number))
        np.testing.assert_array_equal(whole, WHOLE + np.int32(number))


def test_equal_numbers_of_an_expression_stay_one():
    twice = (_1 * 0.3 + _2) + (_1 * 0.3 - _2)
    for expression in (twice, with_words((twice,))[0][0]):
        chain = lowered((expression,), (FP16, FP16), (None,), True, False).chain
        assert [step.op for step in chain.steps].count("mul") == 1
        assert len(chain.numbers) == 1
    first, second = popops.map((_1 * 0.3 + _2, _1 * 0.7 - _2), X, Y)
    assert_same_bits(first, X * np.float32(0.3) + Y)
    assert_same_bits(second, X * np.float32(0.7) - Y)
    first, second = popops.map((_1 * 0.3 + _2, _1 * 0.3 - _2), X, Y)
    assert_same_bits(second, X * np.float32(0.3) - Y)


@pytest.mark.parametrize("scale", [np.nan, np.inf, 3.41e38, None, "1"])
def test_what_is_refused_stays_so_after_what_is_not(scale):
    for _ in range(2):
        popops.multi_update_add(TABLE, UPDATES, INDICES, 0.3)
        with pytest.raises(PoplibsError):
            popops.multi_update_add(TABLE, UPDATES, INDICES, scale)


def test_whole_numbers_that_a_type_does_not_hold_are_named():
    small = np.arange(5, dtype=np.uint8)
    for number in (100, 200, 255):
        np.testing.assert_array_equal(popops.map(_1 + number, small), small + np.uint8(number))
        np.testing.assert_array_equal(popops.add(small, number), small + np.uint8(number))
        for wrong in (300, -3, 257):
            for call in (popops.add, lambda x, n: popops.map(_1 + n, x)):
                with pytest.raises(PoplibsError, match=str(wrong)):
                    call(small, wrong)
    table = np.zeros((16, 4), np.int32)
    for _ in range(2):
        popops.multi_update_add(table, np.ones((8, 4), np.int32), INDICES, 3.0)
        with pytest.raises(PoplibsError, match=r"2\.5"):
            popops.multi_update_add(table, np.ones((8, 4), np.int32), INDICES, 2.5)
    with pytest.raises(PoplibsError, match="whole number"):
        popops.scaled_add(WHOLE, WHOLE, 0.3)


def test_modelled_machines_give_the_same():
    for scale in (0.3, 0.7, 3):
        half = X.astype(np.float16)
        due = popops.multi_update_add(half[:64].reshape(16, 4), half[:32].reshape(8, 4), INDICES, scale)
        for _ in range(2):
            got = popops.multi_update_add(half[:64].reshape(16, 4), half[:32].reshape(8, 4), INDICES, scale,
                                          target="gc200")
            np.testing.assert_allclose(got.astype(np.float32), due.astype(np.float32), rtol=2e-3, atol=1e-3)
            assert_same_bits(popops.scaled_add(X, Y, scale, target="gc200"), popops.scaled_add(X, Y, scale))


@pytest.mark.parametrize("scale", [300, -1])
def test_scales_that_integers_do_not_hold_are_refused_by_name(scale):
    table, updates = np.zeros((16, 4), np.uint8), np.ones((8, 4), np.uint8)
    for call in (lambda: popops.multi_update_add(table, updates, INDICES, scale),
                 lambda: popops.scatter(table, INDICES, updates, operation="add", scale=scale),
                 lambda: popops.scaled_add(updates, updates, scale)):
        with pytest.raises(PoplibsError, match=f"^scale: got {scale}; .*uint8"):
            call()
