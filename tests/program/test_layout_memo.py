"""The layout memo finds what was kept for arrays laid out alike, and nothing else."""

import numpy as np
import pytest

from poplibs_py.program import LayoutMemo

X = np.zeros((4, 6), np.float32)
OUT = np.zeros((4, 6), np.float16)
OPTIONS = ("format", None, 2)


def memo():
    made = LayoutMemo()
    made.keep(X, OUT, OPTIONS, "with out")
    made.keep(X, None, OPTIONS, "without")
    return made


def test_alike_is_found():
    assert memo().find(np.ones((4, 6), np.float32), np.ones((4, 6), np.float16), OPTIONS) == "with out"
    assert memo().find(np.ones((4, 6), np.float32), None, OPTIONS) == "without"


@pytest.mark.parametrize(("x", "out", "options"), [
    (np.zeros((6, 4), np.float32), None, OPTIONS),
    (np.zeros((4, 6), np.float64), None, OPTIONS),
    (np.zeros((4, 6, 1), np.float32), None, OPTIONS),
    (np.zeros((4, 6), np.float32, order="F"), None, OPTIONS),
    (np.zeros((4, 6), np.float32), OUT.copy(order="F"), OPTIONS),
    (np.zeros((4, 6), np.float32), np.zeros((4, 6), np.int16), OPTIONS),
    (np.zeros((4, 6), np.float32), np.zeros((4, 7), np.float16), OPTIONS),
    (X, None, ("format", None, 3)),
    (X[:], None, OPTIONS),
    (X, OUT[:], OPTIONS),
    (X, X, OPTIONS),
    ([[0.0] * 6] * 4, None, OPTIONS),
    (X, [0.0], OPTIONS),
    (None, None, OPTIONS),
])  # fmt: skip
def test_others_are_not(x, out, options):
    assert memo().find(x, out, options) is None


def test_a_read_only_output_is_not_found():
    locked = OUT.copy()
    locked.flags.writeable = False
    assert memo().find(X, locked, OPTIONS) is None


def test_the_latest_layouts_are_kept():
    made = LayoutMemo()
    for n in range(100):
        made.keep(np.zeros(n, np.float32), None, OPTIONS, n)
    assert [made.find(np.zeros(n, np.float32), None, OPTIONS) for n in (99, 95, 0)] == [99, 95, None]


def test_arrays_of_many_axes_are_left_alone():
    made = LayoutMemo()
    x = np.zeros((1,) * 9)
    made.keep(x, None, OPTIONS, 1)
    assert made.find(x, None, OPTIONS) is None
