"""A kept call of every op: asked by names, described by whoever keeps it, while operands change behind its back."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops, poprand, profile
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.target import Target
from poplibs_py.testing.cases import cases

EVERY_CASE = [(name, case) for name in catalogue for case in cases(name)]


def numbers_of(result):
    if isinstance(result, (tuple, list)):
        return np.concatenate([np.ravel(numbers_of(part)).astype(np.float64) for part in result])
    return np.array(result.blocks if hasattr(result, "blocks") else getattr(result, "codes", result))


def restore(value, before):
    """Write what arrays held to them again."""
    if isinstance(value, np.ndarray):
        value[...] = before
    elif isinstance(value, BlockSparseMatrix):
        value.blocks[...] = before.blocks
    elif isinstance(value, (list, tuple)):
        for one, held in zip(value, before, strict=True):
            restore(one, held)


@pytest.mark.parametrize(("name", "case"), EVERY_CASE, ids=lambda x: x if isinstance(x, str) else x.what)
def test_a_call_by_names_is_the_call_by_place(name, case):
    face = catalogue[name].face
    bound = inspect.signature(face).bind(*case.operands, **case.keywords)
    spread = next((p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
    rest = next((p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    if rest is not None:  # has no names: what comes before it is told by place too
        face, before = partial(face, *bound.args), list(bound.arguments)[: list(bound.arguments).index(rest) + 1]
        bound.arguments = {k: v for k, v in bound.arguments.items() if k not in before}
    named = {k: v for k, v in bound.arguments.items() if k != spread} | bound.arguments.get(spread, {})
    places = list(named)[: len(case.operands)] if rest is None else []
    written = [i for i, parameter in enumerate(places) if parameter in (catalogue[name].written, "calls")]
    for keywords in (named, dict(reversed(named.items()))):
        for _ in range(3):
            before = [copy.deepcopy(case.operands[i]) for i in written]
            due = numbers_of(catalogue[name].face(*case.operands, **case.keywords))
            for i, held in zip(written, before, strict=True):
                restore(case.operands[i], held)
            got = numbers_of(face(**keywords))
            assert (got.dtype, got.shape, got.tobytes()) == (due.dtype, due.shape, due.tobytes())
            for i, held in zip(written, before, strict=True):
                restore(case.operands[i], held)


@pytest.mark.parametrize("name", catalogue)
def test_what_is_given_in_the_place_of_an_array_is_taken_anew_each_time(name):
    """Lists and numbers become arrays that are not the call's: no kept call may look for them there."""
    face, case = catalogue[name].face, cases(name)[0]

    def answer(i, value):
        operands = [copy.deepcopy(x) if k != i else value for k, x in enumerate(case.operands)]
        with suppress(PoplibsError, TypeError, ValueError):
            return numbers_of(face(*operands, **case.keywords)).tobytes()

    for i, x in enumerate(case.operands):
        if type(x) is not np.ndarray or not x.size:
            continue
        for value in (x.tolist(), x.ravel()[:6].tolist(), x.ravel()[0].item(), x.ravel()[0]):
            with profile():  # where nothing is kept
                due = answer(i, value)
            assert [answer(i, value) for _ in range(3)] == [due] * 3


def test_a_number_of_steps_is_no_array_of_the_call():
    x, w, u = (np.linspace(-1, 1, n).reshape(shape).astype(np.float32)
               for n, shape in ((24, (3, 2, 4)), (80, (4, 4, 5)), (100, (4, 5, 5))))
    due = popnn.lstm_fwd(x, w, u, time_steps=np.array([2, 2]))
    for _ in range(3):
        got = popnn.lstm_fwd(x, w, u, time_steps=2)
        assert numbers_of(got[:1]).tobytes() == numbers_of(due[:1]).tobytes()


@pytest.mark.parametrize(("name", "shapes", "more", "unread"), [
    ("gru_wu", ((3, 2, 4, 5), (3, 2, 6), (3, 2, 5)), {"reset_after": True}, {"intermediates": (3, 2, 4, 5)}),
    ("lstm_wu", ((3, 2, 4, 5), (3, 2, 6), (3, 2, 5)), {}, {"weights_input": (4, 6, 5), "weights_output": (4, 5, 5)}),
    ("lstm_fwd", ((3, 2, 4, 5),), {"weights_output": (4, 5, 5), "do_input_weight_calc": False},
     {"weights_input": (4, 6, 5)}),
    ("lstm_bwd", ((3, 2, 5), (3, 2, 6), (4, 6, 5), (4, 5, 5)), {}, {"intermediates": (3, 2, 0, 5)})])
def test_calls_with_arguments_that_nobody_reads_are_kept(name, shapes, more, unread):
    face, random = getattr(popnn, name), np.random.default_rng(1)

    def numbers(shape):
        return random.standard_normal(shape).astype(np.float32)

    operands = [numbers(shape) for shape in shapes]
    more = {key: numbers(value) if isinstance(value, tuple) else value for key, value in more.items()}
    before, due = face.kept, face(*operands, **more, **{key: numbers(shape) for key, shape in unread.items()})
    for _ in range(3):
        for swapped in (False, True):
            given = {key: numbers(shape) for key, shape in unread.items()}
            got = face(*operands, **(given | more if swapped else more | given))
            assert numbers_of(got).tobytes() == numbers_of(due).tobytes()
    assert before < face.kept <= before + 2  # by the order of their names
    got = face(*(2 * x for x in operands), **more, **given)
    with profile():
        due = face(*(2 * x for x in operands), **more, **given)
    assert numbers_of(got).tobytes() == numbers_of(due).tobytes()


@pytest.mark.parametrize("step", [1, 2])
def test_several_results_are_written_to_the_caller_s_arrays_by_kept_calls_too(step):
    forget()  # calls of the same kinds that other tests made
    kept = 0
    for name in ("poplin.qr", "popnn.cross_entropy", "popnn.layer_norm_grad", "popops.sort_key_value",
                 "popnn.scaled_dot_product_attention_grad", "poplin.norm_statistics"):
        face, case = catalogue[name].face, cases(name)[0]
        due = face(*case.operands, **case.keywords)
        room = [np.zeros(step * x.size + 1, x.dtype) for x in due]
        outs = tuple(r[1::step].reshape(x.shape) for r, x in zip(room, due, strict=True))
        kept -= face.kept
        for _ in range(3):
            got = face(*case.operands, **case.keywords, out=outs)
            assert type(got) is type(due)
            assert all(a is b and a.tobytes() == c.tobytes() for a, b, c in zip(got, outs, due, strict=True))
            for r in room:
                r[...] = 0
        kept += face.kept
        alike = [x for x in outs if (x.shape, x.dtype) == (outs[0].shape, outs[0].dtype)]
        if len(alike) == len(outs):
            with pytest.raises(PoplibsError, match="out"):
                face(*case.operands, **case.keywords, out=(outs[0],) * len(outs))
    assert kept == 6


def test_results_that_overlap_are_refused_by_kept_calls_too():
    x, room = np.ones((2, 3), np.float32), np.zeros(7, np.float32)
    for _ in range(3):
        poplin.norm_statistics(x, 0.1, out=(room[:3], room[4:]))
    with pytest.raises(PoplibsError, match="share memory"):
        poplin.norm_statistics(x, 0.1, out=(room[:3], room[2:5]))


def test_several_results_may_be_written_over_operands():
    keys, values = np.float32([3, 1, 2]), np.float32([30, 10, 20])
    for _ in range(3):
        ours = keys.copy(), values.copy()
        apart = np.zeros(3, np.float32), np.zeros(3, np.float32)
        for out in (ours, ours[::-1], apart):  # the last is kept, and no other
            given = keys.copy(), values.copy()
            ours[0][...], ours[1][...] = given
            made = popops.sort_key_value(*(given if out is apart else ours), out=out)
            assert made.keys is out[0]
            assert made.keys.tolist() == [1, 2, 3]
            assert made.values.tolist() == [10, 20, 30]
    a = np.arange(12, dtype=np.float32).reshape(4, 3) % 5
    due, room = poplin.qr(a), a.copy()
    q, r = poplin.qr(room, out=(room, np.zeros((3, 3), np.float32)))
    assert q is room
    assert q.tobytes() == due.q.tobytes()
    assert r.tobytes() == due.r.tobytes()


def test_kept_calls_of_several_results_refuse_what_may_not_be_written():
    x, room = np.ones((4, 8), np.float32), [np.zeros(4, np.float32), np.zeros((4, 8), np.float32)]
    labels = np.zeros(4, np.int64)
    for _ in range(3):
        popnn.cross_entropy(x, labels, out=tuple(room))
    room[1].flags.writeable = False
    with pytest.raises(PoplibsError, match=r"out\[1\].*read-only"):
        popnn.cross_entropy(x, labels, out=tuple(room))


@pytest.mark.parametrize("name", sorted(catalogue))
def test_what_ran_is_pickled_and_copied(name):
    case = cases(name)[0]
    with profile() as report:
        catalogue[name].face(*case.operands, **case.keywords)
    for run in report.runs:
        for again in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
            assert (again.op, again.what, again.kernel) == (run.op, run.what, run.kernel)


class Resizing:
    """Garbage that resizes an array when it is collected."""

    def __init__(self, array):
        self.cycle, self.array = self, array

    def __del__(self):
        with suppress(ValueError):  # it is in use
            self.array.resize((1, 1), refcheck=False)


def test_garbage_that_is_collected_during_a_call_takes_no_memory_from_it():
    a, b = np.ones((300, 400), np.float32), np.ones((400, 300), np.float32)
    for _ in range(3):
        poplin.matmul(a, b)
    threshold = gc.get_threshold()
    gc.freeze()  # what other tests left is not looked through each time
    try:
        for _ in range(20):
            b = np.ones((400, 300), np.float32)
            gc.collect()
            gc.disable()
            Resizing(b)
            gc.set_threshold(1)
            gc.enable()
            try:
                y = poplin.matmul(a, b)
            except InvalidArgumentError:  # its shape had changed when the call looked at it
                continue
            np.testing.assert_array_equal(y, np.full((300, 300), 400))
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
        gc.unfreeze()


def test_a_seed_whose_index_does_anything_is_read_before_arrays():
    x = np.ones(500_000, np.float32)

    class Seed(np.int64):
        def __index__(self):
            with suppress(ValueError):  # it is in use
                x.resize(10, refcheck=False)
            return 1

    for _ in range(3):
        x.resize(500_000, refcheck=False)
        assert poprand.dropout(x, 0.5, seed=Seed(1)).shape in ((500_000,), (10,))


@pytest.mark.parametrize("keyword", ["seed", "seed_modifier", "offset"])
def test_a_time_is_no_number(keyword, capsys):
    with pytest.raises(PoplibsError, match=keyword):
        poprand.uniform(2, **{keyword: np.timedelta64(1)})
    assert capsys.readouterr().err == ""


def test_what_does_not_fit_a_tile_is_kept_as_no_call_says_so():
    x, machine = np.ones(1 << 17, np.float32), Target.gc200(tiles=1)
    with profile() as report:
        popops.sqrt(x, target=machine)
    assert not report.runs[0].plan.fits
    forget()
    before = popops.sqrt.kept
    for _ in range(3):
        popops.sqrt(x, target=machine)
    assert popops.sqrt.kept == before + 1
