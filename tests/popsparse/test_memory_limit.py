"""Products keep to the bound on their temporary bytes, change no bit by it, and say when they cannot."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, MemoryLimitWarning
from poplibs_py.formats import FORMATS, format_of
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, pattern, static
from poplibs_py.popsparse.operands import sparse_operand
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.report.peers import limited_threads
from poplibs_py.target import Target, memory_limit

NAMES = [f.name for f in FORMATS]
BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16)]
PROPORTIONS = [0.003, 0.01, 0.03, 0.1, 0.6]


def numbers(rng, shape, name="float32"):
    return rng.integers(-4, 5, shape).astype(format_of(name).dtype)


def sparse(rng, rows, depth, block_shape, name, groups=1, density=0.4, scaled=False):
    shape = (groups, rows, depth) if groups > 1 else (rows, depth)
    w = BlockSparseMatrix.from_dense(numbers(rng, shape, name), block_shape, density=density, dtype=name)
    if scaled and w.format.bits == 8:
        w = BlockSparseMatrix(w.pattern, w.blocks, w.format, rng.integers(-3, 4, w.n_blocks))
    return w


def held(call):
    """A call's result, or the error of a bound that is too tight, and the most temporary bytes that it held."""
    memory_peak(reset=True)
    before = memory_in_use()
    try:
        made = call()
    except MemoryLimitError as error:
        made = error
    assert memory_in_use() == before
    return made, memory_peak() - before


def bytes_named(text):
    """The bound and the need that a message names."""
    found = re.search("leaves ([0-9,]+) .* takes is ([0-9,]+)", text)
    return [int(number.replace(",", "")) for number in found.groups()]


operands = {
    "names": st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), "block_shape": st.sampled_from(BLOCKS),
    "rows": st.integers(0, 130), "depth": st.integers(0, 300), "columns": st.integers(0, 400),
    "density": st.floats(0, 1), "order": st.sampled_from("CF"), "proportion": st.sampled_from(PROPORTIONS),
    "threads": st.sampled_from([1, 2]), "groups": st.integers(1, 2), "seed": st.integers(0, 2**32 - 1),
}


@given(form=st.sampled_from(["static", "swapped", "dynamic", "prepared"]), transposed=st.booleans(),
       scaled=st.booleans(), out_name=st.sampled_from(["float32", "float16", "e4m3"]), with_bias=st.booleans(),
       activation=st.sampled_from([None, "gelu"]), **operands)
def test_products_keep_to_their_memory_limit(form, transposed, scaled, out_name, with_bias, activation, names,
                                             block_shape, rows, depth, columns, density, order, proportion, threads,
                                             groups, seed):
    rng = np.random.default_rng(seed)
    w = sparse(rng, rows, depth, block_shape, names[0], groups, density, scaled)
    w = w.T if transposed else w
    m, k = w.shape
    x = np.asarray(numbers(rng, (*(groups,) * (groups > 1), k, columns), names[1]), order=order)
    how = {"out_dtype": out_name, "bias": numbers(rng, m) if with_bias else None, "activation": activation}
    calls = {
        "static": lambda **memory: static.sparse_dense_matmul(w, x, **how, **memory),
        "swapped": lambda **memory: static.dense_sparse_matmul(x.swapaxes(-1, -2), w.T, **how, **memory),
        "dynamic": lambda **memory: dynamic.sparse_dense_matmul(w, x, **how, **memory),
        "prepared": lambda **memory: static.sparse_dense_matmul(w, ready, **how, **memory),
    }
    ready = static.prepare_dense(x, w.format) if form == "prepared" else None
    with limited_threads(threads):
        bound = threads * memory_limit(Target.host(threads), proportion)
        expected = calls[form]()
        got, most = held(lambda: calls[form](available_memory_proportion=proportion, strict_memory=True))
    assert most <= bound
    if isinstance(got, MemoryLimitError):
        allowed, need = bytes_named(str(got))
        assert most == 0
        assert need > allowed
        assert allowed <= bound
    else:
        assert got.tobytes() == expected.tobytes()


@given(**operands)
def test_layers_keep_to_their_memory_limit(names, block_shape, rows, depth, columns, density, order, proportion,
                                           threads, groups, seed):
    rng = np.random.default_rng(seed)
    w = sparse(rng, rows, depth, block_shape, names[0], groups, density)
    acts = np.asarray(numbers(rng, (columns, groups * depth), names[1]), order=order)
    grads = np.asarray(numbers(rng, (columns, groups * rows), names[1]), order=order)
    memory = {"options": {"availableMemoryProportion": str(proportion)}, "strict_memory": True}
    with limited_threads(threads):
        bound = threads * memory_limit(Target.host(threads), proportion)
        for call in (lambda **how: dynamic.fully_connected_fwd(w, acts, **how),
                     lambda **how: dynamic.fully_connected_grad_a(w, grads, **how)):
            expected = call()
            got, most = held(lambda call=call: call(**memory))
            assert most <= bound
            assert isinstance(got, MemoryLimitError) or got.tobytes() == expected.tobytes()


@given(transposed=st.booleans(), **operands)
def test_a_plan_says_what_its_runs_take(transposed, names, block_shape, rows, depth, columns, density, order,
                                        proportion, threads, groups, seed):
    rng = np.random.default_rng(seed)
    w = sparse(rng, rows, depth, block_shape, names[0], groups, density)
    w = w.T if transposed else w
    x = numbers(rng, (*(groups,) * (groups > 1), w.shape[1], columns), names[1])
    with limited_threads(threads):
        try:
            plan = static.plan_sparse_dense_matmul(w, columns, dtype=names[1], available_memory_proportion=proportion,
                                                   strict_memory=True)
        except MemoryLimitError:
            return
        got, most = held(lambda: static.compile_sparse_dense_matmul(plan)(w, x))
        assert got.tobytes() == static.sparse_dense_matmul(w, x).tobytes()
    assert most <= plan.temporary_bytes
    assert not (columns and w.shape[0]) or plan.temporary_bytes <= plan.limit
    assert f"{plan.temporary_bytes:,} bytes of all threads, limit {plan.limit:,}" in str(plan.explain())


def uneven(rng, longest, rows=64):
    """A matrix of FP16 with `longest` blocks of 4 x 4 in one block row and one in each other, or little more."""
    mask = np.eye(rows, dtype=bool)[:, rng.permutation(rows)]
    mask[rng.integers(rows), :longest] = True
    w = BlockSparseMatrix.from_mask(mask, 4, dtype="float16")
    w.blocks[...] = numbers(rng, w.blocks.shape, "float16")
    return w


@pytest.mark.parametrize("transposed", [False, True])
def test_values_are_decoded_some_block_rows_at_a_time(transposed):
    rng = np.random.default_rng(1)
    w = uneven(rng, 20)
    w = w.T if transposed else w
    x = numbers(rng, (256, 40))
    proportion = 4 * w.n_blocks * 16 / 2 / Target.host().bytes_per_tile  # half of W
    with limited_threads(1):
        plan = static.plan_sparse_dense_matmul(w, 40, dtype="float32", available_memory_proportion=proportion)
        assert 0 < plan.slice_blocks < w.n_blocks
        assert f"some block rows at a time, at most {plan.slice_blocks} blocks" in str(plan.explain())
        got, most = held(lambda: static.compile_sparse_dense_matmul(plan)(w, x))
    due = static.sparse_dense_matmul(w, x)
    assert got.tobytes() == due.tobytes()
    assert 0 < most <= plan.temporary_bytes <= plan.limit
    room = np.zeros((300, 40), np.float32)  # where X and the result overlap
    room[:256] = x
    made = static.sparse_dense_matmul(w, room[:256], out=room[3:259], available_memory_proportion=proportion)
    assert made.tobytes() == due.tobytes()


def test_a_pattern_with_longer_rows_than_planned_for_is_planned_anew():
    rng = np.random.default_rng(2)
    narrow = uneven(rng, 2)
    mask = np.zeros((64, 64), bool)
    mask[0] = True
    wide = BlockSparseMatrix.from_mask(mask, 4, dtype="float16")
    wide.blocks[...] = numbers(rng, wide.blocks.shape, "float16")
    assert wide.n_blocks <= narrow.n_blocks
    x = numbers(rng, (256, 24))
    proportion = 1500 / Target.host().bytes_per_tile
    with limited_threads(1):
        run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(
            narrow, 24, dtype="float32", available_memory_proportion=proportion, strict_memory=True))
        assert run(narrow, x).tobytes() == (narrow @ x).tobytes()
        with pytest.raises(MemoryLimitError):
            run(wide, x)


@pytest.mark.parametrize("call", [static.sparse_dense_matmul, dynamic.sparse_dense_matmul])
def test_a_bound_that_no_plan_meets(call):
    w = BlockSparseMatrix.from_dense(np.eye(64, dtype=np.float16), 4)
    x = np.ones((64, 16), np.float16)
    with pytest.raises(MemoryLimitError, match="leaves 10 bytes of all threads; the least that any plan takes is"):
        call(w, x, available_memory_proportion=10 / Target.host().bytes_per_tile, strict_memory=True)
    for _ in range(2):  # a program that is kept must not keep the warning
        with pytest.warns(MemoryLimitWarning, match="the limit was raised"):
            got = call(w, x, available_memory_proportion=1e-5)
    assert np.all(got == 1)


@pytest.mark.parametrize(("how", "error", "name"), [
    ({"available_memory_proportion": -1}, InvalidArgumentError, "available_memory_proportion"),
    ({"available_memory_proportion": float("nan")}, InvalidArgumentError, "available_memory_proportion"),
    ({"available_memory_proportion": []}, InvalidTypeError, "available_memory_proportion"),
    ({"available_memory_proportion": "0.5"}, InvalidTypeError, "available_memory_proportion"),
    ({"strict_memory": 1}, InvalidTypeError, "strict_memory"),
    ({"options": 3}, InvalidTypeError, "options"),
    ({"options": {"availableMemory": 1}}, InvalidArgumentError, "availableMemoryProportion"),
    ({"options": {"availableMemoryProportion": "much"}}, InvalidArgumentError, "availableMemoryProportion"),
    ({"options": {"availableMemoryProportion": -1}}, InvalidArgumentError, "available_memory_proportion"),
    ({"options": {"partialsType": "half"}}, InvalidArgumentError, "partialsType"),
])  # fmt: skip
def test_what_is_no_bound_is_refused(how, error, name):
    w = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4)
    x = np.ones((8, 8), np.float32)
    for call in (lambda: static.sparse_dense_matmul(w, x, **how), lambda: static.dense_sparse_matmul(x, w, **how),
                 lambda: dynamic.sparse_dense_matmul(w, x, **how), lambda: dynamic.fully_connected_fwd(w, x, **how),
                 lambda: dynamic.fully_connected_grad_a(w, x, **how), lambda: static.sparse_grad_w(w, x, x, **how),
                 lambda: dynamic.fully_connected_sparse_grad_w(w, x, x, **how),
                 lambda: static.plan_sparse_dense_matmul(w, 8, **how),
                 lambda: static.plan_dense_sparse_matmul(w, 8, **how)):
        with pytest.raises(error, match=name):
            call()


@pytest.mark.parametrize("op", ["static.sparse_dense_matmul", "dynamic.sparse_dense_matmul",
                                "static.dense_sparse_matmul", "fully_connected_fwd", "fully_connected_grad_a",
                                "sparse_grad_w", "fully_connected_sparse_grad_w"])
def test_a_check_takes_the_bound_of_the_call(op):
    w = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float16), 4)
    x = np.ones((8, 8), np.float16)
    operands = {"static.dense_sparse_matmul": (x, w)}.get(op, (w, x, x) if op.endswith("grad_w") else (w, x))
    testing.check(op, *operands, available_memory_proportion=0.5, strict_memory=True)
    assert testing.exact(op, *operands, available_memory_proportion=0.5).shape
    with pytest.raises(InvalidTypeError, match="available_memory_share"):
        testing.bound(op, *operands, available_memory_share=0.5)


def test_the_options_of_poplibs_are_known():
    w = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4)
    options = {"availableMemoryProportion": 0.5, "partialsType": "float", "metaInfoBucketOversizeProportion": 0.1}
    assert np.all(static.sparse_dense_matmul(w, np.ones((8, 3), np.float32), options=options) == 1)


@pytest.mark.parametrize("groups", [1, 3])
def test_a_bounded_dynamic_product_makes_its_transpose_once(groups, monkeypatch):
    made = []
    transpose = pattern.transpose
    monkeypatch.setattr(pattern, "transpose", lambda *index: made.append(1) or transpose(*index))
    w = sparse(np.random.default_rng(4), 96, 128, (4, 4), "float16", groups)
    x = numbers(np.random.default_rng(5), (*(groups,) * (groups > 1), 96, 24))
    with limited_threads(1):
        got = dynamic.sparse_dense_matmul(w, x, transpose_lhs=True, strict_memory=True,
                                          available_memory_proportion=w.n_blocks * 40 / Target.host().bytes_per_tile)
    assert got.tobytes() == (w.T @ x).tobytes()
    assert sparse_operand("w", w.T).longest_row == np.max(np.diff(w.pattern.transposed()[0].row_offsets))
    assert made == [1]


@pytest.mark.parametrize("form", ["float16", "f143"])
@pytest.mark.parametrize("transposed", [False, True])
def test_slices_take_no_memory_that_is_not_counted(form, transposed):
    rng = np.random.default_rng(6)
    w = sparse(rng, 512, 512, (1, 1), form, density=0.3, scaled=form == "f143")
    w = w.T if transposed else w
    x, out = numbers(rng, (512, 16)), np.zeros((512, 16), np.float32)
    how = {"available_memory_proportion": w.n_blocks * 2 / Target.host().bytes_per_tile, "strict_memory": True}
    with limited_threads(1):
        expected = static.sparse_dense_matmul(w, x, out=out, **how).copy()  # what stays is made
        tracemalloc.start()
        try:
            got, most = held(lambda: static.sparse_dense_matmul(w, x, out=out, **how))
            traced = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert got.tobytes() == expected.tobytes() == (w @ x).tobytes()
    rows = 8 * (w.shape[0] + 1)  # offsets of block rows
    assert traced < 4 * rows + w.n_blocks
    assert most > w.n_blocks


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("groups", [1, 3])
def test_prepared_operands_keep_to_their_group_where_values_are_decoded_some_rows_at_a_time(name, groups):
    rng = np.random.default_rng(4)
    w = sparse(rng, 16, 16, (8, 8), name, groups)
    x = numbers(rng, (groups, 16, 4), name) if groups > 1 else numbers(rng, (16, 4), name)
    ready = static.prepare_dense(x, w_dtype=name)
    for share in (None, 1e-2, 1e-4):
        got = static.sparse_dense_matmul(w, ready, available_memory_proportion=share, out_dtype="float32")
        np.testing.assert_array_equal(got, w.to_dense().astype(np.float32) @ x.astype(np.float32))


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize("name", ["bfloat16", "f143"])
@pytest.mark.parametrize("share", [0.003, 0.01, 0.03])
def test_plans_under_a_limit_are_taken_as_they_are(name, share):
    rng = np.random.default_rng(0)
    w = sparse(rng, 64, 64, (32, 32), name, density=1)
    for columns in (16, 64):
        for plan, take in ((static.plan_dense_sparse_matmul, static.compile_dense_sparse_matmul),
                           (dynamic.plan_dense_sparse_matmul, dynamic.compile_dense_sparse_matmul)):
            x = numbers(rng, (columns, 64), name)
            multiply = take(plan(w, columns, out_dtype="float32", available_memory_proportion=share))
            np.testing.assert_array_equal(multiply(w, x), x.astype(np.float32) @ w.to_dense().astype(np.float32))
