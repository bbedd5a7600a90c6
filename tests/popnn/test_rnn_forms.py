"""Recurrent layers: 8-bit and block-sparse weights, projections, limits on memory."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitWarning, UnsupportedError
from poplibs_py.formats import F143, F152, QuarterArray
from poplibs_py.ops import host_target
from poplibs_py.planner import facts_of
from poplibs_py.popnn.recurrent import plan, update
from poplibs_py.popnn.recurrent.builder import Builder
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.popsparse.pattern import room_for
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
CELL_ORDERS = {"lstm": ("input", "forget", "candidate", "output"), "gru": ("candidate", "reset", "update")}
STEPS, BATCH, INPUTS, OUTPUTS = 32, 8, 24, 32


def numbers(*shape, seed=0, size=0.25, dtype=np.float32):
    """Sixteenths: sums of few of their products are exact in any order."""
    return (np.random.default_rng((seed, *shape)).integers(-16, 17, shape) * (size / 16)).astype(dtype)


def layer(cell, dtype=np.float32, states=OUTPUTS):
    front = (GATES[cell],) if cell != "rnn" else ()
    x, *weights = (numbers(*shape, dtype=dtype) for shape in (
        (STEPS, BATCH, INPUTS), (*front, INPUTS, OUTPUTS), (*front, states, OUTPUTS), (*front, OUTPUTS)))
    return x, *weights


def passes(cell, operands, grad, more=None, updated=None, **how):
    """All results of a forward pass, of both kinds of backward passes and of a weight update."""
    forward, back, update = (getattr(popnn, f"{cell}_{kind}") for kind in ("fwd", "bwd", "wu"))
    more = more or {}
    made = forward(*operands, **more, **how)
    kept = {} if cell == "rnn" else {"intermediates": made.intermediates}
    kept |= {} if cell == "lstm" else {"output": made.output}
    again, grads = (back(grad, *operands, **some, **more, **how) for some in ({}, kept))
    read = {"intermediates": made.intermediates} if cell == "gru" else {}
    gates = grads.step_grads if cell == "rnn" else grads.gate_grads
    return [*made, *again, *grads, *update(gates, operands[0], made.output, **read, **how)]


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize(("fmt", "scale"), [(F143, -4), (F152, 0)])
def test_8_bit_weights_are_their_values(cell, fmt, scale):
    x, w, u, b = layer(cell, np.float16)
    grad = numbers(STEPS, BATCH, OUTPUTS, dtype=np.float16)
    eight = [QuarterArray.from_array(v.astype(np.float32), fmt, scale) for v in (w, u)]
    wide = [v.to_array().astype(np.float16) for v in eight]
    due = passes(cell, (x, *wide, b), grad)
    made = passes(cell, (x, *eight, b), grad)
    for part, other in zip(made, due, strict=True):
        assert_same_bits(part, other)
    if fmt == F143 and cell == "lstm":  # scales of blocks are the values' too
        blocks = [QuarterArray.from_array(v, F143, "auto", (1, 4, 8)) for v in wide]
        wide = [v.to_array().astype(np.float32) for v in blocks]
        assert_same_bits(popnn.lstm_fwd(x, *blocks, b).output,
                         popnn.lstm_fwd(x, *wide, b, out_dtype="float16").output)
        plain = [v.astype(ml_dtypes.float8_e4m3fnuz) for v in wide]
        assert_same_bits(popnn.lstm_fwd(x, *plain, b).output,
                         popnn.lstm_fwd(x, *(v.astype(np.float16) for v in plain), b).output)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("cell", [*GATES, "projected"])
@thread_limit(1)
def test_passes_keep_to_a_limit_on_memory(cell, dtype):
    """Counted, at most what the limit leaves; the numbers are those of all steps at once, or sums in another order."""
    name, states = ("lstm", OUTPUTS // 2) if cell == "projected" else (cell, OUTPUTS)
    operands, more = layer(name, dtype, states), {}
    lengths = np.random.default_rng(1).integers(0, STEPS + 1, BATCH)
    target = host_target(None, "test")
    if cell == "projected":
        more["weights_projection"] = numbers(OUTPUTS, states, dtype=dtype)
    forward, back, update = (getattr(popnn, f"{name}_{kind}") for kind in ("fwd", "bwd", "wu"))
    grad, more["time_steps"] = numbers(STEPS, BATCH, states, dtype=dtype), lengths
    made = forward(*operands, **more)
    kept = {} if name == "rnn" else {"intermediates": made.intermediates[:, :, :4] if name == "lstm" else
                                     made.intermediates}
    kept |= {} if name == "lstm" else {"output": made.output}
    gates = back(grad, *operands, **kept, **more)[3 if name == "lstm" else 2]
    read = {"intermediates": made.intermediates} if name == "gru" else {}
    calls = [lambda **how: forward(*operands, **more, **how), lambda **how: back(grad, *operands, **more, **how),
             lambda **how: back(grad, *operands, **kept, **more, **how),
             lambda **how: update(gates, operands[0], made.output, **read, **how)]
    for number, call in enumerate(calls):
        free, kept_to = taken_by(call), []
        for share in (0.99, 0.75, 0.5):
            limit = share * free[1]
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                results, most = taken_by(call, available_memory_proportion=limit / target.bytes_per_tile)
            if not said:
                assert most <= limit
                kept_to.append(share)
            for part, due in zip(results, free[0], strict=True):
                few = 8 * np.finfo(dtype).eps  # roundings: sums of as many steps in another order
                largest = float(abs(due).max(initial=0))
                np.testing.assert_allclose(part.astype(float), due.astype(float), rtol=few, atol=few * largest)
        assert kept_to or number == 2  # what was kept needs no more than packed weights
        with pytest.warns(MemoryLimitWarning, match="the least that any plan takes"):
            call(available_memory_proportion=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("cell", GATES)
def test_a_row_s_long_sequence_a_few_steps_at_a_time_is_the_whole(cell, dtype):
    """With weights as torch has them, which a sequence of few steps would read where they lie."""
    x, *weights, b = layer(cell, dtype)
    weights = [np.ascontiguousarray(w.swapaxes(-1, -2)).swapaxes(-1, -2) for w in weights]
    operands, grad = (x[:, :1], *weights, b), numbers(STEPS, 1, OUTPUTS, dtype=dtype)
    due = passes(cell, operands, grad)
    for share in (0.1, 0.05, 0.02, 0.01):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryLimitWarning)
            made = passes(cell, operands, grad, available_memory_proportion=share)
        for part, other in zip(made, due, strict=True):
            few = 8 * np.finfo(dtype).eps
            np.testing.assert_allclose(part.astype(float), other.astype(float), rtol=few, atol=few * abs(other).max())


def taken_by(call, **how):
    """Results, and the most temporary bytes at once."""
    call(**how)
    memory_peak(reset=True)
    before = memory_in_use()
    results = call(**how)
    return results, memory_peak() - before


def some_blocks(dense, block_shape, turned=False, **how):
    """Half of the blocks of weights, stored as they are or as their transpose."""
    front, sides = dense.shape[:-2], [n // b for n, b in zip(dense.shape[-2:], block_shape, strict=True)]
    kept = np.random.default_rng(7).random((*front, *sides)) < 0.5
    if not turned:
        return BlockSparseMatrix.from_dense(dense, block_shape, mask=kept, **how)
    back = np.ascontiguousarray(dense.swapaxes(-1, -2))
    return BlockSparseMatrix.from_dense(back, block_shape[::-1], mask=kept.swapaxes(-1, -2), **how).T


@pytest.mark.parametrize("cell", [*GATES, "reset after"])
@pytest.mark.parametrize(("dtype", "block_shape", "turned", "how"), [
    (np.float32, (8, 8), False, {}), (np.float16, (4, 16), True, {}), (np.float32, (1, 1), False, {}),
    (np.float16, (8, 4), False, {"dtype": "f143", "scale": "auto_per_block"})])
def test_block_sparse_weights_are_dense_ones_with_zeros(cell, dtype, block_shape, turned, how):
    name = "gru" if cell == "reset after" else cell
    more = {"lstm": {"cell_order": ("input", "output", "candidate", "forget")}, "rnn": {},
            "gru": {"cell_order": ("candidate", "update", "reset"), "reset_after": cell == "reset after"}}[name]
    x, w, u, b = layer(name, dtype)
    b = np.stack([b, b], 1) if cell == "reset after" else b
    sparse = [some_blocks(v, block_shape, turned, **how) for v in (w, u)]
    dense = [v.to_dense().reshape(given.shape).astype(dtype) for v, given in zip(sparse, (w, u), strict=True)]
    grad = numbers(STEPS, BATCH, OUTPUTS, dtype=dtype)
    forward, back, update = (getattr(popnn, f"{name}_{kind}") for kind in ("fwd", "bwd", "wu"))
    for mine, theirs in ((sparse, dense), ((sparse[0], dense[1]), dense), ((dense[0], sparse[1]), dense)):
        made, due = forward(x, *mine, b, **more), forward(x, *theirs, b, **more)
        grads, due_grads = back(grad, x, *mine, b, **more), back(grad, x, *theirs, b, **more)
        for part, other in zip((*made, *grads), (*due, *due_grads), strict=True):
            unit, largest = 64 * np.finfo(dtype).eps, float(abs(other).max(initial=1))
            np.testing.assert_allclose(part.astype(float), other.astype(float), atol=unit * largest)
    gates, output = (numbers(*part.shape, seed=3, dtype=dtype) for part in (grads[-1], made.output))
    extra = (numbers(STEPS, BATCH, 3, OUTPUTS, dtype=dtype),) if cell == "gru" else ()
    both = dict(zip(("weights_input", "weights_output"), sparse, strict=True))
    due = update(gates, x, output, *extra, **more)
    for share in (None, 0.02):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryLimitWarning)  # sums at all blocks take more
            found = update(gates, x, output, *extra, available_memory_proportion=share, **both, **more)
        for part, other, given in zip(found, due, sparse, strict=False):
            there = given.copy()
            there.blocks[...] = 1
            assert part.pattern == given.pattern
            masked = np.where(there.to_dense().reshape(other.shape), other, 0).astype(np.float32)
            assert_same_bits(part.to_dense().reshape(other.shape), masked)  # sums that are exact in any order
        assert_same_bits(found.biases_grad, due.biases_grad)


@pytest.mark.parametrize("cell", [*GATES, "reset after"])
@pytest.mark.parametrize(("turned", "how"), [
    (False, {}), (True, {}), (False, {"dtype": "f143", "scale": "auto_per_block"}),
    (True, {"dtype": "f143", "scale": "auto_per_block"})])
def test_passes_with_block_sparse_weights_are_kept_for_any_of_their_kind(cell, turned, how):
    name = "gru" if cell == "reset after" else cell
    x, w, u, _ = layer(name)
    more, grad = {"reset_after": True} if cell == "reset after" else {}, numbers(STEPS, BATCH, OUTPUTS)
    forward, back = (getattr(popnn, f"{name}_{kind}") for kind in ("fwd", "bwd"))
    before = forward.kept, back.kept
    kinds = set()
    for seed in (1, 2, 3, 4, 1):
        random, sparse = np.random.default_rng(seed), []
        for dense in (w, u):
            dense = dense.swapaxes(-1, -2) if turned else dense
            mask = random.permuted(np.arange(dense.size // 16).reshape(*dense.shape[:-2], -1, dense.shape[-1] // 4) %
                                   (dense.shape[-1] // 4) % 2 == 0, axis=-1)  # as many blocks in every block row
            mask.flat[np.flatnonzero(mask)[:seed % 2]] = False  # one room for both numbers of blocks
            made = BlockSparseMatrix.from_dense(np.ascontiguousarray(dense), 4, mask=mask, **how)
            sparse.append(made.T if turned else made)
        kinds.add(tuple(room_for(v.n_blocks) for v in sparse))
        for _ in range(2):
            made, grads = forward(x, *sparse, **more), back(grad, x, *sparse, **more)
            with profile():  # where nothing is kept
                due, due_grads = forward(x, *sparse, **more), back(grad, x, *sparse, **more)
            for part, other in zip((*made, *grads), (*due, *due_grads), strict=True):
                assert_same_bits(part, other)
    assert (forward.kept - before[0], back.kept - before[1]) == (len(kinds), len(kinds))


@pytest.mark.parametrize(("wrong", "error", "said"), [
    ({"weights_output": some_blocks(numbers(3, OUTPUTS, OUTPUTS), (8, 8))}, InvalidArgumentError,
     "weights_output: got a matrix of 3 groups"),
    ({"weights_output": some_blocks(numbers(4, OUTPUTS, OUTPUTS - 1), (8, 1))}, InvalidArgumentError,
     "weights_output: got shape"),
    ({"weights_output": BlockSparseMatrix.from_dense(numbers(4, OUTPUTS, OUTPUTS), (8, 5))}, InvalidArgumentError,
     "weights_output: got blocks of"),
    ({"weights_projection": some_blocks(numbers(OUTPUTS, OUTPUTS), (8, 8))}, InvalidTypeError,
     "weights_projection: got"),
    ({"weights_output": some_blocks(numbers(4, OUTPUTS, OUTPUTS), (8, 8)), "target": "gc200"}, UnsupportedError,
     "with block-sparse weights"),
])
def test_block_sparse_weights_that_do_not_fit_are_named(wrong, error, said):
    x, w, u, b = layer("lstm")
    with pytest.raises(error, match=said):
        popnn.lstm_fwd(x, w, **{"weights_output": u, "biases": b} | wrong)


def test_a_stack_goes_back_through_block_sparse_weights():
    x, w, u, b = layer("gru")
    one = popnn.LayerWeights(some_blocks(w, (8, 8)), some_blocks(u, (8, 8)), b)
    made = popnn.gru(x, [one], inference_only=False)
    [[found]] = popnn.layers_bwd(np.ones_like(made.output), made.tape).weights
    assert found.weights_output_grad.pattern == one.weights_output.pattern
    same = popnn.gru(x, [one._replace(weights_output=one.weights_output.to_dense())], inference_only=False)
    [[due]] = popnn.layers_bwd(np.ones_like(same.output), same.tape).weights
    kept = one.weights_output.to_dense() != 0
    np.testing.assert_allclose(found.weights_output_grad.to_dense()[kept], due.weights_output_grad[kept], atol=1e-3)


@pytest.mark.parametrize("shape", [(OUTPUTS, 0), (OUTPUTS, OUTPUTS + 1), (OUTPUTS - 1, OUTPUTS), (OUTPUTS, 5)])
def test_projections_that_do_not_fit_are_named(shape):
    with pytest.raises(InvalidArgumentError, match="weights_projection: got shape"):
        popnn.lstm_fwd(*layer("lstm"), weights_projection=np.zeros(shape, np.float32))


def test_a_projection_by_one_is_none():
    operands, grad = layer("lstm"), numbers(STEPS, BATCH, OUTPUTS)
    one = np.eye(OUTPUTS, dtype=np.float32)
    plain, projected = popnn.lstm_fwd(*operands), popnn.lstm_fwd(*operands, weights_projection=one)
    for part, due in zip(projected, plain, strict=True):
        assert_same_bits(part, due)
    back = popnn.lstm_bwd(grad, *operands, weights_projection=one)
    for part, due in zip(back, popnn.lstm_bwd(grad, *operands), strict=False):
        assert_same_bits(part, due)
    assert back.weights_projection_grad.any()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru", "projected"])
def test_a_backward_pass_with_the_update_is_the_two(cell, full):
    name, states = ("lstm", 16) if cell == "projected" else (cell, OUTPUTS)
    operands, how = layer(name, states=states), {"init_output": numbers(BATCH, states), "output_full_sequence": full}
    how |= {"weights_projection": numbers(OUTPUTS, states)} if cell == "projected" else {}
    grad = numbers(*((STEPS,) if full else ()), BATCH, states)
    forward, back, update, both = (getattr(popnn, f"{name}_{kind}") for kind in ("fwd", "bwd", "wu", "bwd_with_wu"))
    made = forward(*operands, **how)
    output = made.output if full else made.intermediates[:, :, -1, :states]
    given = {"output": output} if name == "gru" and full else {}
    due = back(grad, *operands, intermediates=made.intermediates, **given, **how)
    read = {"intermediates": made.intermediates} if name == "gru" else {}
    weights = update(due.gate_grads, operands[0], output, init_output=how["init_output"], **read)
    kept = {"intermediates": made.intermediates} | ({"output": output} if full else {})
    for some in (kept, {}, {"intermediates": made.intermediates}):
        found = both(grad, *operands, **some, **how)
        for part, other in zip((*found.backward, *found.weights), (*due, *weights), strict=True):
            assert_same_bits(part, other)


@pytest.mark.parametrize("cell", GATES)
@thread_limit(1)
def test_what_a_run_tells_to_be_temporary_is_what_is_counted(cell):
    operands, grad = layer(cell), numbers(STEPS, BATCH, OUTPUTS)
    forward, back = (getattr(popnn, f"{cell}_{kind}") for kind in ("fwd", "bwd"))
    for share in (None, 0.05):
        for call in (lambda **how: forward(*operands, **how), lambda **how: back(grad, *operands, **how)):
            with warnings.catch_warnings(), profile() as report:
                warnings.simplefilter("ignore", MemoryLimitWarning)
                _, most = taken_by(call, available_memory_proportion=share)
            assert report.runs[-1].temporary_bytes == most


@pytest.mark.parametrize("cell", GATES)
@thread_limit(1)
def test_sums_of_few_rows_are_made_where_they_are_to_be(cell):
    """No room for them is taken, and their bits are those of more rows, the first of them zeros."""
    front, update = (GATES[cell],) if cell != "rnn" else (), getattr(popnn, f"{cell}_wu")
    rng = np.random.default_rng(5)
    grads, x, output, saved = (rng.standard_normal((2, 3, *shape), np.float32) for shape in (
        (*front, 64), (600,), (64,), (3, 64)))
    more = {"intermediates": saved} if cell == "gru" else {}
    how = {"cell_order": CELL_ORDERS[cell]} if cell in CELL_ORDERS else {}
    few, most = taken_by(lambda **how: update(grads, x, output, **more, **how), **how)
    longer = [np.pad(v, ((30, 0), *[(0, 0)] * (v.ndim - 1))) for v in (grads, x, output, *more.values())]
    many = update(*longer[:3], **how, **dict(zip(more, longer[3:], strict=True)))
    for part, other in zip(few, many, strict=True):
        assert_same_bits(part, other)
    assert most < few.weights_input_grad.nbytes / 2


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("cell", [*GATES, "projected"])
def test_some_stretches_tell_the_bytes_and_threads_of_all(cell, blocks, monkeypatch):
    name, states = ("lstm", OUTPUTS // 2) if cell == "projected" else (cell, OUTPUTS)
    x, w, u, b = layer(name, np.float16, states)
    w, u = (some_blocks(w, (8, 8)), some_blocks(u, (8, 8))) if blocks else (w, u)
    x, how = x[:27, :, ::-1], {"time_steps": np.arange(BATCH)}  # no power of two: the last stretch is shorter
    if cell == "projected":
        how["weights_projection"] = numbers(OUTPUTS, states, dtype=np.float16)
    if name == "gru":
        how["attention"] = numbers(BATCH, len(x), dtype=np.float16)
    seen = []

    def chosen(op, choices, program, *rest):
        for one in choices:
            made, counted = program(one), program(one, True)
            assert (made.temporary_bytes, made.threads) == (counted.temporary_bytes, counted.threads)
            seen.append(len(made.programs) - len(counted.programs))
        return plan_chosen(op, choices, program, *rest)

    plan_chosen = plan.chosen_within
    for module in (plan, update):
        monkeypatch.setattr(module, "chosen_within", chosen)
    forward, back, updated = (getattr(popnn, f"{name}_{kind}") for kind in ("fwd", "bwd", "wu"))
    made = forward(x, w, u, b, **how)
    kept = {} if name == "rnn" else {"intermediates": made.intermediates[:, :, :4] if name == "lstm" else
                                     made.intermediates}
    kept |= {} if name == "lstm" else {"output": made.output}
    for some in ({}, kept):
        grads = back(made.output, x, w, u, b, **some, **how)
    read = {"intermediates": made.intermediates} if name == "gru" else {}
    read |= {"weights_input": w, "weights_output": u} if blocks else {}
    updated(grads[-1 if cell != "projected" else -2], x, made.output, **read)
    assert max(seen) > 0 <= min(seen)


@pytest.mark.parametrize("cell", GATES)
def test_what_is_described_to_keep_to_a_limit_does_not_grow_with_the_steps(cell, monkeypatch):
    described, run = [0], Builder.run

    def counted(builder, *part, **how):
        described[0] += builder.counts
        run(builder, *part, **how)

    monkeypatch.setattr(Builder, "run", counted)
    front = (GATES[cell],) if cell != "rnn" else ()
    w = np.zeros((*front, 3, 3), np.float32)
    found = []
    for steps in (1000, 2000):
        x, described[0] = np.zeros((steps, 1, 3), np.float32), 0
        for call in (lambda **how: getattr(popnn, f"{cell}_fwd")(x, w, w, **how),  # noqa: B023
                     lambda **how: getattr(popnn, f"{cell}_bwd")(x, x, w, w, **how)):  # noqa: B023
            with pytest.warns(MemoryLimitWarning):
                call(available_memory_proportion=1e-9)
        found.append(described[0])
    assert found[0] <= found[1] <= 1.2 * found[0] < 1000  # one more choice


@pytest.mark.parametrize("cell", GATES)
def test_runs_tell_their_temporary_bytes_and_the_limit(cell):
    operands, grad = layer(cell), numbers(STEPS, BATCH, OUTPUTS)
    with profile() as free:
        passes(cell, operands, grad)
    with warnings.catch_warnings(), profile() as kept:
        warnings.simplefilter("ignore")
        passes(cell, operands, grad, available_memory_proportion=0.01)
    for run, less in zip(free.runs, kept.runs, strict=True):
        assert facts_of(run.plan).limit is None
        assert run.temporary_bytes == facts_of(run.plan).temporary_bytes >= less.temporary_bytes > 0
        assert facts_of(less.plan).limit > 0
        assert facts_of(less.plan).fits == (less.temporary_bytes <= facts_of(less.plan).limit)
