"""An `out` that lies over any array of a call receives what one that lies apart does, whatever the op reads last."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest

from poplibs_py import popnn, popops, poprand
from poplibs_py.errors import PoplibsError
from poplibs_py.ops import catalogue
from poplibs_py.testing.cases import cases


def _takes_out(face):
    out = inspect.signature(face).parameters.get("out")
    return out is not None and out.default is None


WITH_OUT = [(name, case) for name in catalogue if _takes_out(catalogue[name].face)
            for case in cases(name) if "out" not in case.keywords]


def over(array, result, begin):
    """Return copies of an array, and of a result that begins so many bytes before or behind it, in one memory."""
    room = np.zeros(array.nbytes + 2 * result.nbytes + 256, np.uint8)
    at = (-room.ctypes.data) % 64 + result.nbytes // 64 * 64 + 64
    moved = np.ndarray(array.shape, array.dtype, room.data, offset=at)
    moved[...] = array
    return moved, np.ndarray(result.shape, result.dtype, room.data, offset=at + begin)


@pytest.mark.parametrize(("name", "case"), WITH_OUT, ids=lambda x: x if isinstance(x, str) else x.what)
def test_an_out_over_any_operand_receives_what_one_apart_does(name, case):
    face, held = catalogue[name].face, [*case.operands, *case.keywords.values()]

    def call(values, out):
        operands, more = values[:len(case.operands)], values[len(case.operands):]
        return face(*operands, **dict(zip(case.keywords, more, strict=True)), out=out)

    made = face(*copy.deepcopy(case.operands), **copy.deepcopy(case.keywords))
    several = isinstance(made, tuple)
    results = list(made) if several else [made]
    if not all(type(x) is np.ndarray for x in results):
        pytest.skip("whose result is no array")
    for i, x in enumerate(held):
        if type(x) is not np.ndarray or not x.size or not all(x.strides):
            continue
        for k, result in enumerate(results):
            for begin in (0, result.itemsize, -result.itemsize, x.itemsize):
                values, outs = copy.deepcopy(held), [np.zeros_like(y, order="C") for y in results]
                values[i], outs[k] = over(np.ascontiguousarray(x), result, begin)
                before, apart = copy.deepcopy(values), [y.copy() for y in outs]
                try:
                    call(before, tuple(apart) if several else apart[0])
                except PoplibsError:  # whose result has one format, or no out of such a one
                    continue
                call(values, tuple(outs) if several else outs[0])
                assert all(a.tobytes() == b.tobytes() for a, b in zip(outs, apart, strict=True)), (i, k, begin)


def test_labels_places_and_weights_may_lie_where_the_result_goes():
    x = np.ones((2, 2), np.float32)
    labels, out = over(np.int32([1, 0]), x, 0)
    assert popops.update_scalar_in_rows(x, labels, out=out).tolist() == [[1, 0], [0, 1]]

    places, out = over(np.int64([[[1, 2]]]), np.zeros((1, 1, 3), np.float32), 0)
    assert popnn.pool_indices_gradient(np.float32([[[5, 6]]]), places, (1, 1, 3), out=out).tolist() == [[[0, 5, 6]]]

    weights, out = over(np.float32([[1, 2], [3, 4]]), x, 0)
    indices = np.int32([[0, 1], [1, 0]])
    bags = popops.embedding_bag(np.float32([[1, 10], [2, 20]]), indices, weights=weights, out=out)
    assert bags.tolist() == [[5, 50], [10, 100]]


def test_a_dropout_by_rows_reads_what_it_writes_over_in_another_order():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    due = poprand.shaped_dropout(x, (8, 1), 0.5, seed=3)
    room = x.T.copy()
    assert poprand.shaped_dropout(room.T, (8, 1), 0.5, seed=3, out=room).tobytes() == due.tobytes()
    room = x.T.copy()
    assert poprand.shaped_dropout_gradient(room.T, (8, 1), 0.5, seed=3, out=room).tobytes() == due.tobytes()
