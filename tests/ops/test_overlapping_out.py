"""An `out` that lies over any array of a call receives what one that lies apart does, whatever the op reads last."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
from math import prod

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops, poprand
from poplibs_py.errors import PoplibsError, UnsupportedError
from poplibs_py.formats import F143, QuarterArray
from poplibs_py.ops import RESULT, Request, catalogue, operand, receive
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing.cases import Case, cases

_NEW, _NONE = "what it returns is new: it takes no `out`", "it reads no array"
APART = {
    "poplin.linspace": _NONE,
    "poplin.multiconv.calculate_weight_deltas": "it takes an `out` for each call: tests/poplin/test_multiconv.py",
    "poplin.multiconv.convolution": "as above",
    "poplin.multiconv.convolution_weight_update": "as above",
    "popnn.batch_norm_statistics": _NEW,
    "popnn.calc_accuracy": _NEW,
    "popops.bincount": _NEW,
    "popops.embedding_gradient": "it refuses an `out`: how many rows there are depends on the indices",
    "popops.fill": _NONE,
    "popops.iota": _NONE,
    "poprand.bernoulli": _NONE,
    "poprand.bits": _NONE,
    "poprand.categorical": "it reads a list of probabilities",
    "poprand.exponential": _NONE,
    "poprand.gumbel": _NONE,
    "poprand.log_uniform": _NONE,
    "poprand.normal": _NONE,
    "poprand.permutation": _NEW,
    "poprand.truncated_normal": _NONE,
    "poprand.uniform": _NONE,
    "popsparse.bs_softmax_in_place": "it reads what it writes over alone",
    "popsparse.static.sparse_sparse_matmul": _NEW,
}
"""Ops of which no result can lie over an array that they read, and why; of all others one does over each."""


def array_of(value):
    """The array that an argument or a result has, or None: a matrix has the values of its blocks."""
    if type(value) is np.ndarray:
        return value
    return value.codes if isinstance(value, QuarterArray) else (
        value.blocks if isinstance(value, BlockSparseMatrix) else None)


def held_in(value, array):
    """What is like an argument or a result, in an array."""
    if isinstance(value, QuarterArray):
        return QuarterArray(array, value.format, value.scale, value.block_shape)
    if isinstance(value, BlockSparseMatrix):
        made = BlockSparseMatrix(value.pattern, array, value.format, value.scale)
        return made.T if value.is_transposed else made
    return array


def over(array, result, begin, apart=(1, 1)):
    """Return copies of an array, and of a result that begins so many bytes before or behind it, in one memory.

    Elements of the array, and of the result, lie so many elements `apart`.
    """
    sizes = [x.nbytes * step for x, step in zip((array, result), apart, strict=True)]
    room = np.zeros(sizes[0] + 2 * sizes[1] + 256, np.uint8)
    at = (-room.ctypes.data) % 64 + sizes[1] // 64 * 64 + 64
    moved, out = (np.ndarray(x.shape, x.dtype, room.data, where, [
        x.itemsize * step * prod(x.shape[axis + 1:]) for axis in range(x.ndim)])
        for x, step, where in ((array, apart[0], at), (result, apart[1], at + begin)))
    moved[...] = array
    return moved, out


def written_by(op):
    """The parameter that an op writes to, or None."""
    taken = inspect.signature(op.face).parameters
    keywords = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    return "out" if "out" in taken else op.written if op.written in taken or keywords else None


class Drawn:
    """A call of an op, and what it writes to.

    Attributes
    ----------
    held : dict of str to object
        The arguments by name, but for `out`.
    results : list
        What it returns, or the argument that it changes.
    """

    def __init__(self, op, case):
        self.op, self.face, self.written = op, op.face, written_by(op)
        parameters = list(inspect.signature(op.face).parameters.values())
        names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
        if len(names) < len(parameters):
            names = [f"{parameters[0].name}[{i}]" for i in range(len(case.operands))]
        self.positional = names[:len(case.operands)]
        self.held = dict(zip(self.positional, case.operands, strict=True)) | case.keywords
        written = self.held.get(self.written)
        made = self.call(self.held) if written is None else written
        if isinstance(made, tuple) and any(array_of(y) is None for y in made):  # further results, which are new
            made = made[0]
        self.several = isinstance(made, tuple)
        self.results = list(made) if self.several else [made]

    def call(self, held, *outs):
        named = copy.deepcopy(held) if not outs else held | {self.written: outs if self.several else outs[0]}
        positional = [named.pop(name) for name in self.positional if name in named]
        return self.face(*positional, **named)

    def with_arguments(self, **named):
        """Return the call with other arguments."""
        held = self.held | named
        positional = tuple(held.pop(other) for other in self.positional)
        return Drawn(self.op, Case("", positional, held))

    @property
    def arrays(self):
        """The arrays that a result may lie over, by parameter."""
        found = {name: array_of(value) for name, value in self.held.items() if name != self.written}
        return {name: x for name, x in found.items() if x is not None and x.size}

    def compare(self, name, k, begin, apart=(1, 1)):
        """Whether a call takes a result that lies over an array of its, or between the elements of that, which are to
        stay; it is to be as if it did not."""
        x, *results = (np.array(y, order="C") for y in (self.arrays[name], *map(array_of, self.results)))
        moved, out = over(x, results[k], begin, apart)
        if not np.may_share_memory(moved, out):
            return False
        made = []
        due, other = over(x, results[k], begin, apart)[0], over(x, results[k], begin, apart)[1]  # which lie alike
        for array, to, fails in ((due, other, (PoplibsError,)), (moved, out, ())):
            arrays = [to if i == k else y.copy() for i, y in enumerate(results)]
            outs = [held_in(y, z) for y, z in zip(self.results, arrays, strict=True)]
            try:
                self.call(copy.deepcopy(self.held) | {name: held_in(self.held[name], array)}, *outs)
            except fails:
                return False
            made.append([y.tobytes() for y in arrays])
        assert made[0] == made[1], (name, k, begin, apart)
        assert np.shares_memory(moved, out) or moved.tobytes() == x.tobytes(), (name, k, begin, apart)
        return True


def drawn_calls(name):
    """Small calls of an op that writes to an argument."""
    op = catalogue[name]
    written, taken = written_by(op), inspect.signature(op.face).parameters
    if written is None:
        return []
    optional = written == "out" and (written not in taken or taken["out"].default is None)
    return [Drawn(op, case) for case in cases(name) if not (optional and (
        "out" in case.keywords or case.what == "out"))]


@pytest.mark.parametrize("name", catalogue)
def test_an_out_over_any_operand_receives_what_one_apart_does(name):
    known, met = set(), set()
    for drawn in drawn_calls(name):
        for parameter, x in drawn.arrays.items():
            matrix = isinstance(drawn.held[parameter], BlockSparseMatrix)  # whose blocks lie in C order
            for k, result in enumerate(drawn.results):
                y = array_of(result)
                known.add((parameter, k))
                ways = [(begin, (1, 1)) for begin in (0, 0, y.itemsize, -y.itemsize, x.itemsize)]  # twice: kept
                if x.ndim and y.ndim:
                    gaps = (1,) if isinstance(result, BlockSparseMatrix) else (1, 2)
                    ways += [(0, (a, b)) for a in ((1,) if matrix else (1, 2)) for b in gaps if a * b > 1]
                    ways += [(y.itemsize, (2, 2))] * 2 if not matrix and 2 in gaps else []  # between its elements
                done = [drawn.compare(parameter, k, *way) for way in ways]
                met.update([(parameter, k)] if all(done[5:]) and any(done) else [])
    if name in APART:
        assert not met
    else:
        assert known
        assert known == met


def test_an_out_over_codes_or_values_of_blocks_receives_what_one_apart_does():
    met = dict.fromkeys(("one scale", "scales of blocks", "matrices", "matrices written"), 0)
    for name in catalogue:
        for drawn in drawn_calls(name):
            stored = [isinstance(x, BlockSparseMatrix) for x in drawn.held.values()]
            met["matrices"] += any(stored)
            met["matrices written"] += any(stored) and isinstance(drawn.results[0], BlockSparseMatrix)
        for drawn in drawn_calls(name)[:1]:
            for parameter, x in drawn.arrays.items():
                if type(drawn.held[parameter]) is not np.ndarray or x.dtype != np.float32:
                    continue
                for what, block in (("one scale", None), ("scales of blocks", (1,) * x.ndim)):
                    codes = QuarterArray.from_array(x, F143, 0 if block is None else "auto", block)
                    try:
                        given = drawn.with_arguments(**{parameter: codes})
                    except PoplibsError:  # which takes no such numbers
                        continue
                    met[what] += sum(given.compare(parameter, k, begin) for k, y in enumerate(given.results)
                                     for begin in (0, array_of(y).itemsize)) > 0
    assert all(met[what] >= least for what, least in (
        ("one scale", 150), ("scales of blocks", 150), ("matrices", 20), ("matrices written", 6))), met


@pytest.mark.parametrize(("more", "least"), [
    ({"target": "gc200"}, 1200), ({"available_memory_proportion": 1e-7}, 500)], ids=["modelled", "limited"])
@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
def test_an_out_over_operands_on_a_modelled_machine_and_under_a_limit_receives_what_one_apart_does(more, least):
    met = 0
    for name in catalogue:
        if not more.keys() <= inspect.signature(catalogue[name].face).parameters.keys():
            continue
        for plain in drawn_calls(name)[:2]:
            try:
                drawn = plain.with_arguments(**more)
            except PoplibsError:  # for which the machine has no vertex
                continue
            for parameter in drawn.arrays:
                for k, result in enumerate(drawn.results):
                    for begin in (0, array_of(result).itemsize):
                        with contextlib.suppress(UnsupportedError):  # in place
                            met += drawn.compare(parameter, k, begin)
    assert met >= least


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


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_call_whose_result_takes_an_operand_s_place_is_kept(order):
    x, w = np.array(np.arange(30).reshape(5, 6), np.float32, order=order), np.ones((6, 6), np.float32)
    due, before = poplin.matmul(x, w), poplin.matmul.kept
    for _ in range(3):
        over_it = x.copy(order="K")
        assert poplin.matmul(over_it, w, out=over_it) is over_it
        assert over_it.tobytes() == due.tobytes()
        assert poplin.matmul.kept == before + 1


def test_a_kept_call_keeps_no_copy_of_the_first_one():
    before = memory_in_use()
    for name in catalogue:
        for drawn in drawn_calls(name)[:1]:
            for parameter in drawn.arrays:
                drawn.compare(parameter, 0, 0)
    gc.collect()
    assert memory_in_use() == before


def test_copies_of_what_lies_far_apart_take_room_for_its_elements_alone():
    column = np.zeros((1000, 1 << 14), np.float32)[:, 7]  # with pages that nobody has written
    column[...] = np.arange(1000)
    due = column[1:] + column[:-1]
    memory_peak(reset=True)
    popops.add(column[1:], column[:-1], out=column[1:])
    assert column[1:].tobytes() == due.tobytes()
    assert memory_peak() < 1 << 20


def test_what_is_smaller_moves():
    x = np.arange(90000, dtype=np.float32).reshape(300, 300)
    due = x.sum(0, np.float64).astype(np.float32)
    memory_peak(reset=True)
    popops.sum(x, 0, out=x[7])
    assert x[7].tobytes() == due.tobytes()
    assert memory_peak() < x.nbytes // 2

    moved = x[2:9].copy()
    memory_peak(reset=True)
    popops.dynamic_update(x, x[2:9], [3], [0], out=x)
    assert x[3:10].tobytes() == moved.tobytes()
    assert memory_peak() < x.nbytes // 2


def test_a_dropout_by_rows_reads_what_it_writes_over_in_another_order():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    due = poprand.shaped_dropout(x, (8, 1), 0.5, seed=3)
    room = x.T.copy()
    assert poprand.shaped_dropout(room.T, (8, 1), 0.5, seed=3, out=room).tobytes() == due.tobytes()
    room = x.T.copy()
    assert poprand.shaped_dropout_gradient(room.T, (8, 1), 0.5, seed=3, out=room).tobytes() == due.tobytes()


def test_a_request_stays_as_it_was_made_and_moves_none_of_its_operands_itself():
    room = np.arange(40, dtype=np.float32)
    x, out = operand("x", room[:32]), room[8:]
    receiver = receive("out", out, x.shape, None, x.format)
    request = Request(np.copyto, (x, RESULT), receiver, lambda: ("", "", None))
    with pytest.raises(AttributeError):
        request.program = None
    apart = request.apart()
    assert request.operands[0] is x
    assert request.receiver is receiver
    assert receiver.view is None
    assert np.shares_memory(apart.receiver.view, out)
    assert apart.with_(receiver=receiver).receiver is receiver
    assert apart.apart().spoilt() == []


def test_what_a_result_is_written_over_is_an_operand_of_the_program():
    room = np.ones(8, np.float32)
    x = operand("x", room)
    receiver = receive("out", room, x.shape, None, x.format, in_place=(x, operand("y", room[::-1]), operand("z", room)))
    assert [over is x for over in receiver.written_over] == [True, False]
    assert not receive("out", room[::2], (4,), None, x.format, in_place=(x,)).written_over
    half = operand("x", room[::2])
    assert not receive("out", room[::2], (4,), None, x.format, in_place=(half,), contiguous=True).written_over
    request = Request(np.copyto, (x.seen(np.ravel), RESULT), receiver, lambda: ("", "", None))
    with pytest.raises(AssertionError, match="is no operand"):
        request.apart()
