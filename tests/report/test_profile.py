"""A profile holds every operation that ran inside it, and changes no result."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import poplibs_py
from poplibs_py import poplin, popnn, popsparse
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.report.verdict import amount

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_products_on_this_cpu_are_collected():
    w = popsparse.BlockSparseMatrix.from_dense(A, (1, 2))
    with poplibs_py.profile() as report:
        dense = poplin.matmul(A, B)
        sparse = w @ B
    np.testing.assert_array_equal(dense, A @ B)
    np.testing.assert_array_equal(sparse, A @ B)
    assert [run.op for run in report.runs] == ["poplin.matmul", "popsparse.static.sparse_dense_matmul"]
    assert all(run.seconds > 0 and "(" in run.kernel for run in report.runs)
    assert report.seconds == sum(run.seconds for run in report.runs)
    assert "poplin.matmul [3, 4] x [4, 2]" in report.summary()


def test_casts_softmax_and_gradients_are_collected():
    w = popsparse.BlockSparseMatrix.from_dense(A, (1, 2))
    with poplibs_py.profile() as report:
        for _ in range(2):
            poplibs_py.cast(A, "float16")
        y = popsparse.bs_softmax(w)
        popsparse.bs_softmax_grad(y, w)
        popsparse.static.sparse_grad_w(w, A, B @ B.T)
    assert [run.op for run in report.runs] == ["popops.cast", "popops.cast", "popsparse.bs_softmax",
                                               "popsparse.bs_softmax_grad", "popsparse.static.sparse_grad_w"]
    assert all(run.seconds > 0 and "(" in run.kernel for run in report.runs)
    assert "popops.cast (3, 4) float32 to float16" in report.summary()
    assert "sparse_grad_w [3, 4] float32 x [4, 4] float32 at " in report.summary()


def test_draws_prepared_operands_and_compiled_products_are_collected():
    compiled = poplin.compile_matmul(poplin.plan_matmul(A.shape, B.shape))
    with poplibs_py.profile() as report:
        poplin.prepare(B)
        popsparse.static.prepare_dense(B)
        made = compiled(A, B)
        poplibs_py.poprand.normal((2, 3), seed=1)
    np.testing.assert_array_equal(made, A @ B)
    assert [run.op for run in report.runs] == ["poplin.prepare", "popsparse.static.prepare_dense", "poplin.matmul",
                                               "poprand.normal"]
    assert "poprand.normal (2, 3) float32" in report.summary()


def test_sparse_operands_are_collected_as_they_are_decoded():
    w = popsparse.BlockSparseMatrix.from_dense(A, (1, 2), dtype="float16")
    wide = w.astype("float32")
    with poplibs_py.profile() as report:
        ready = popsparse.static.prepare(w, x_dtype="float32")
        ready.refresh()
        popsparse.static.prepare(wide)  # whose values are read as they are
        popsparse.static.prepare_dense(B.T, side="left")
    prefix = "popsparse.static."
    assert [run.op for run in report.runs] == [prefix + "prepare", prefix + "PreparedSparse.refresh",
                                               prefix + "prepare_dense"]
    assert all(run.seconds > 0 for run in report.runs)
    decoded = f"{w.n_blocks} blocks (1, 2) float16 to float32"
    assert [run.what for run in report.runs] == [decoded, decoded, f"{list(B.T.shape)} float32 to panels of float32"]
    assert [" (" in run.kernel for run in report.runs] == [True, True, False]


def test_a_run_tells_when_it_was_on_which_thread_and_what_it_moved():
    x = np.broadcast_to(A[:1], (8, 4))
    with poplibs_py.profile() as report:
        thread = threading.Thread(target=poplin.matmul, args=(x, B), name="other")
        thread.start()
        thread.join()
        poplin.matmul(A, B)
        poplibs_py.cast(A, "float16")
    first, second, cast = report.runs
    assert [run.thread for run in report.runs] == ["other", "MainThread", "MainThread"]
    assert first.began < first.ended <= second.began < second.ended <= cast.began
    assert all(run.seconds <= run.ended - run.began for run in report.runs)
    assert (first.read_bytes, first.written_bytes) == (4 * 4 + B.nbytes, 8 * 2 * 4)  # what is broadcast counts once
    assert (second.read_bytes, second.written_bytes) == (A.nbytes + B.nbytes, 3 * 2 * 4)
    assert [run.flops for run in report.runs] == [2 * 8 * 4 * 2, 2 * 3 * 4 * 2, None]


def test_a_sparse_run_tells_its_patterns_balance():
    w = popsparse.BlockSparseMatrix.from_dense(np.kron([[1, 1, 0], [0, 1, 0]], np.ones((2, 2))).astype(np.float32), 2)
    with poplibs_py.profile() as report:
        w @ np.ones((6, 5), np.float32)
        np.ones((5, 4), np.float32) @ w
        popsparse.bs_softmax(w)
        popsparse.static.sparse_grad_w(w, np.ones((4, 5), np.float32), np.ones((6, 5), np.float32))
    loads = [run.loads["stored blocks of a block row"].bins for run in report.runs]
    assert loads == [(2, 1), (1, 2, 0), (2, 1), (2, 1)]
    assert [run.flops for run in report.runs] == [2 * 3 * 4 * 5] * 2 + [None] + [2 * 3 * 4 * 5]


def test_a_call_seen_before_is_collected_too_and_none_outside():
    poplin.matmul(A, B)
    with poplibs_py.profile() as report:
        poplin.matmul(A, B)
    poplin.matmul(A, B)
    assert len(report.runs) == 1


def test_the_profiles_target_serves_calls_that_name_none():
    a = np.ones((64, 64), np.float16)
    with poplibs_py.profile(target="gc200") as report:
        made = poplin.matmul(a, a)
        poplin.matmul(a, a, target="host")
    modelled, host = report.runs
    assert made.dtype == np.float16
    assert modelled.tile_macs.sum() == 64**3
    assert modelled.tile_bytes.max() > 0
    assert "compute" in modelled.phases
    assert host.tile_macs is None
    text = report.summary(details=True)
    assert f"{modelled.plan.cycles:,} cycles" in text
    assert "multiply-accumulates of a tile" in text


def test_profiles_nest_and_see_other_threads():
    with poplibs_py.profile() as outer:
        with poplibs_py.profile() as inner:
            thread = threading.Thread(target=poplin.matmul, args=(A, B))
            thread.start()
            thread.join()
        poplin.matmul(A, B)
    assert (len(inner.runs), len(outer.runs)) == (1, 2)


def test_an_error_inside_ends_the_profile():
    with pytest.raises(ZeroDivisionError), poplibs_py.profile() as report:
        raise ZeroDivisionError
    poplin.matmul(A, B)
    assert report.runs == []
    assert report.summary() == "nothing ran"


def test_an_unknown_target_is_refused_by_name():
    with pytest.raises(InvalidArgumentError, match="gc9"), poplibs_py.profile(target="gc9"):
        pass


def test_bytes_that_tiles_receive_are_reported():
    from poplibs_py.poplin.tile_conv.work import work_of

    a, b = np.ones((32, 48), np.float16), np.ones((48, 40), np.float16)
    with poplibs_py.profile(target="gc200") as report:
        poplin.matmul(a, b)
    run = report.runs[0]
    pieces = work_of(run.plan).pieces
    sizes = (tuple(int(np.diff(p[axis])[..., -1].max()) for axis in ("field", "outs", "ins")) for p in pieces)
    operands = sum((field + outs) * ins * a.itemsize for field, outs, ins in sizes)
    assert run.exchanged_bytes >= operands > 0
    assert report.data.operations[0].exchanged_bytes == run.exchanged_bytes
    assert amount(run.exchanged_bytes) in report.summary()


def test_what_has_no_program_on_the_profiles_machine_says_so():
    w = poplibs_py.popsparse.BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4)
    plan = poplin.plan_matmul((8, 8), (8, 8))
    x = np.ones((8, 8), np.float32)
    for target, said in (("gc200", True), ("host", False), (None, False)):
        with poplibs_py.profile(target=target) as report:
            w @ x
            poplibs_py.poprand.uniform((3,), seed=1)
            poplin.matmul_acc(x.copy(), x, x)
            poplin.compile_matmul(plan)(x, x)
        whys = "no vertex for poprand.uniform in this form", "no vertex for poplin.matmul_acc that accumulates"
        assert [run.lacking for run in report.runs] == ["", *(why * said for why in whys), ""]
        assert ("no vertex for poprand.uniform in this form" in report.summary()) == said


def test_an_operation_is_named_alike_on_this_cpu_and_on_a_machine():
    x, w = np.ones((2, 4, 8, 8), np.float16), np.ones((6, 2, 3, 3), np.float16)
    found = []
    for target in (None, "gc200"):
        with poplibs_py.profile(target=target) as report:
            y = poplin.convolution(x, w, groups=2, padding=1)
            poplin.convolution(x, w, groups=2, padding=1, stride=2)
            poplin.calculate_weight_deltas(y, x, groups=2, padding=1)
            poplin.matmul(x[0], x[0])
            poplin.matmul(x[0, 0].astype(np.float32), x[0, 0].astype(np.float32))
            popnn.softmax(x)
            popnn.pool(x, 2)
        found.append([(run.op, run.what) for run in report.runs])
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])
