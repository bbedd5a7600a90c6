"""The kernel of several steps of arithmetic, at every level: NumPy's bits step by step, tails and memory borders."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.kernels import kernels
from poplibs_py.kernels.records import numbers_of

F = np.float32
CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
                        ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
KERNELS = [k for k in kernels("elementwise") if k.op == "arithmetic"]
ARRAYS, CONSTANTS = 3, (F(0.0), F(-3.5), F(0.3), F(np.nan))
WORDS = numbers_of("arithmetic")
STEPS = [lambda x, a, b, c: x + a, lambda x, a, b, c: x - a, lambda x, a, b, c: a - x, lambda x, a, b, c: x * a,
         lambda x, a, b, c: x + a * b, lambda x, a, b, c: x - a * b, lambda x, a, b, c: a * b - x,
         lambda x, a, b, c: -x, lambda x, a, b, c: np.where((x > 0) | np.isnan(x), x, np.where(x < 0, F(0), x)),
         lambda x, a, b, c: np.where(a > b, c, x), lambda x, a, b, c: np.where(a >= b, c, x),
         lambda x, a, b, c: np.where(a == b, c, x), lambda x, a, b, c: np.where(a > b, x, c),
         lambda x, a, b, c: np.where(a >= b, x, c), lambda x, a, b, c: np.where(a == b, x, c),
         lambda x, a, b, c: x * a + b, lambda x, a, b, c: x * a - b, lambda x, a, b, c: b - x * a,
         lambda x, a, b, c: x * a + b * c, lambda x, a, b, c: x * a - b * c, lambda x, a, b, c: b * c - x * a]

PLACES = st.integers(-len(CONSTANTS), ARRAYS - 1)
ARRAY = st.integers(0, ARRAYS - 1)
PARTS = st.lists(st.tuples(st.integers(0, len(STEPS) - 1), ARRAY, PLACES, PLACES, PLACES), min_size=1, max_size=16)


def test_every_level_has_it():
    assert {k.level for k in KERNELS} == {k.level for k in kernels("elementwise")}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.level)
@given(PARTS, PLACES, st.sampled_from([0, 1, 7, 16, 63, 129, 300]), st.integers(0, 3))
def test_every_step_rounds_as_numpy_does_and_nothing_is_written_around(kernel, parts, first, count, misaligned):
    rng = np.random.default_rng(count)
    held = [rng.choice(F([-2, -0.0, 0.0, 0.7, 1 / 3, np.inf, np.nan]), count + misaligned)[misaligned:]
            for _ in range(ARRAYS)]

    def value(place):
        return held[place] if place >= 0 else np.full(count, CONSTANTS[~place], F)

    words, due = [len(parts), len(CONSTANTS), first], value(first)
    with np.errstate(all="ignore"):
        for step, factor, *places in parts:
            if WORDS["add_product"] <= step < WORDS["neg"]:  # of a product one factor at least is an array
                places[0] = factor
            if step >= WORDS["times_add_product"]:  # and of two all of them are
                places = [max(place, 0) for place in places]
            words += [step, *places]
            due = STEPS[step](due, *map(value, places)).astype(F)
    plan, numbers = np.int32([*words, *range(len(CONSTANTS))]), F(CONSTANTS).view(np.uint32).astype(np.uint64)
    room = np.full(count + misaligned + 40, 77, F)
    made = room[misaligned:misaligned + count]
    pointers, out = (ctypes.c_void_p * ARRAYS)(*(x.ctypes.data for x in held)), (ctypes.c_void_p * 1)(made.ctypes.data)
    CALL(kernel.address)(plan.ctypes.data, numbers.ctypes.data, pointers, out, count)
    nan = np.isnan(due)
    np.testing.assert_array_equal(np.isnan(made), nan)
    np.testing.assert_array_equal(made.view(np.int32)[~nan], due.view(np.int32)[~nan])
    assert (room[misaligned + count:] == 77).all()
    assert (room[:misaligned] == 77).all()
