"""Recurrent layers whose weights are packed once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import E4M3, F143, FP32, QuarterArray
from poplibs_py.kernels import kernels
from poplibs_py.ops import host_target
from poplibs_py.poplin.gemm.params import contiguous
from poplibs_py.popnn.recurrent.products import step_product
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.testing import assert_same_bits, assert_within_bound, bound

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
ORDERS = {"lstm": ("input", "output", "forget", "candidate"), "gru": ("update", "candidate", "reset"), "rnn": None}
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]
INPUTS, OUTPUTS, STEPS = 24, 40, 20


def few(*shape, dtype=np.float32, seed=0):
    """Eighths of whole numbers, whose sums of products are exact in any order."""
    return (np.random.default_rng(seed).integers(-4, 5, shape) / 8).astype(dtype)


def layer_of(cell, dtype=np.float32, after=False, inputs=INPUTS, by_columns=False, projected=0):
    gates = (GATES[cell],) if cell != "rnn" else ()
    w, u = few(*gates, inputs, OUTPUTS, dtype=dtype), few(*gates, projected or OUTPUTS, OUTPUTS, dtype=dtype, seed=1)
    if by_columns:
        w, u = (np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (w, u))
    biases = few(*gates, *((2,) if after else ()), OUTPUTS, dtype=dtype, seed=2)
    projection = few(OUTPUTS, projected, dtype=dtype, seed=3) if projected else None
    return popnn.LayerWeights(w, u, biases, ORDERS[cell], after, projection)


def assert_same(one, other):
    for a, b in zip(one[:3], other[:3], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_same_bits(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 3, 33])
@pytest.mark.parametrize(("cell", "after"), [("lstm", False), ("gru", False), ("gru", True), ("rnn", False)])
@pytest.mark.parametrize("by_columns", [False, True])
def test_prepared_weights_give_the_same_bits(cell, after, batch, dtype, by_columns):
    if batch == 1 and by_columns and dtype is np.float16:
        pytest.skip("plain ones are read where they lie then: see below")
    first = layer_of(cell, dtype, after, by_columns=by_columns)
    layers = [(first, first), (layer_of(cell, dtype, after, 2 * OUTPUTS),) * 2]
    prepared, call = popnn.prepare_layers(layers, cell), getattr(popnn, cell)
    for seed in range(2):  # the second call of a kind is the bound one
        x = few(STEPS, batch, INPUTS, dtype=dtype, seed=seed)
        assert_same(call(x, prepared), call(x, layers))
        lengths = np.arange(batch) % (STEPS + 1)
        assert_same(call(x, prepared, time_steps=lengths), call(x, layers, time_steps=lengths))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [1, 9])
@pytest.mark.parametrize(("cell", "after"), [("lstm", False), ("gru", True), ("rnn", False)])
def test_few_steps_of_a_row_are_within_the_bound_either_way(cell, after, steps, dtype):
    layer, x = layer_of(cell, dtype, after, by_columns=True), few(steps, 1, INPUTS, dtype=dtype)
    [(prepared,)] = popnn.prepare_layers([layer], cell)
    how = {} if cell == "rnn" else {"cell_order": layer.cell_order}
    how |= {"reset_after": True} if after else {}
    name = f"popnn.{cell}_fwd"
    ball = bound(name, x, *layer[:3], **how)
    for weights in (layer, prepared):
        assert_within_bound(getattr(popnn, f"{cell}_fwd")(x, *weights[:3], **how), ball)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_projection_is_prepared_too(dtype):
    layers = [layer_of("lstm", dtype, projected=16)]
    x = few(STEPS, 2, INPUTS, dtype=dtype)
    assert_same(popnn.lstm(x, popnn.prepare_layers(layers)), popnn.lstm(x, layers))


@pytest.mark.parametrize("fmt", [E4M3, F143])
def test_8_bit_weights_are_prepared_for_the_formats_to_come(fmt):
    w, u = (QuarterArray.from_array(few(4, rows, OUTPUTS), fmt, 2) for rows in (INPUTS, OUTPUTS))
    layers, x = [popnn.LayerWeights(w, u)], few(STEPS, 2, INPUTS, dtype=np.float16)
    assert_same(popnn.lstm(x, popnn.prepare_layers(layers)), popnn.lstm(x, layers))


def test_formats_may_be_mixed():
    layers, x = [layer_of("lstm", ml_dtypes.bfloat16)], few(STEPS, 2, INPUTS)
    prepared = popnn.prepare_layers(layers, x_dtype="float32", out_dtype="bfloat16")
    assert_same(popnn.lstm(x, prepared, out_dtype="bfloat16"), popnn.lstm(x, layers, out_dtype="bfloat16"))


def test_an_attention_layer_takes_them():
    layer = layer_of("gru")
    [(prepared,)] = popnn.prepare_layers([layer], "gru")
    x, scores = few(STEPS, 2, INPUTS), abs(few(2, STEPS))
    how = {"attention": scores, "cell_order": layer.cell_order}
    assert_same_bits(popnn.gru_fwd(x, *prepared[:3], **how).output, popnn.gru_fwd(x, *layer[:3], **how).output)


def test_stretches_take_them():
    layers, x = [layer_of("lstm")], few(200, 40, INPUTS)
    prepared = popnn.prepare_layers(layers)
    how = {"available_memory_proportion": 0.2, "strict_memory": True}
    assert_same(popnn.lstm(x, prepared, **how), popnn.lstm(x, layers))


def test_later_changes_are_not_seen():
    layer, x = layer_of("lstm"), few(STEPS, 1, INPUTS)
    prepared, before = popnn.prepare_layers([layer]), popnn.lstm(x, [layer])
    layer.weights_output[...] = 0
    assert_same(popnn.lstm(x, prepared), before)


def test_block_sparse_weights_stay_as_they_are():
    layer = layer_of("lstm")
    sparse = layer._replace(weights_output=BlockSparseMatrix.from_dense(layer.weights_output, 4, density=0.5))
    [(prepared,)] = popnn.prepare_layers([sparse])
    assert prepared.weights_output is sparse.weights_output
    assert_same(popnn.lstm(few(STEPS, 2, INPUTS), [prepared]), popnn.lstm(few(STEPS, 2, INPUTS), [sparse]))


def test_a_machine_without_them_runs_here():
    [(prepared,)] = popnn.prepare_layers([layer_of("lstm", np.float16)])
    x = few(STEPS, 1, INPUTS, dtype=np.float16)
    with profile(target="gc200") as report:
        popnn.lstm(x, [prepared])
    assert "prepared" in report.runs[0].lacking


def test_what_they_were_not_prepared_for_is_named():
    x, layer = few(STEPS, 1, INPUTS), layer_of("gru")
    [(prepared,)] = popnn.prepare_layers([layer], "gru")
    how = {"cell_order": layer.cell_order}
    with pytest.raises(InvalidArgumentError, match=r"weights_output: .* cell_order and reset_after"):
        popnn.gru_fwd(x, *prepared[:2])  # gates in another order
    with pytest.raises(InvalidArgumentError, match=r"weights_output: .* reset_after"):
        popnn.gru_fwd(x, *prepared[:2], reset_after=True, **how)
    with pytest.raises(InvalidTypeError, match=r"weights_output: .* prepared as weights_input"):
        popnn.gru_fwd(x, prepared.weights_input, prepared.weights_input, **how)
    with pytest.raises(InvalidTypeError, match=r"weights_input: .* before they were prepared"):
        popnn.gru_bwd(few(STEPS, 1, OUTPUTS), x, *prepared[:3], **how)
    with pytest.raises(InvalidArgumentError, match="cell"):
        popnn.prepare_layers([layer], "elman")
    with pytest.raises(InvalidArgumentError, match="x_dtype"):
        popnn.prepare_layers([layer], "gru", x_dtype="float8_e4m3")
    with pytest.raises(InvalidTypeError, match="weights_input"):
        popnn.prepare_layers([prepared], "gru")


def test_formats_that_round_more_are_named():
    [(prepared,)] = popnn.prepare_layers([layer_of("lstm", ml_dtypes.bfloat16)])
    x = few(STEPS, 1, INPUTS)
    if prepared.weights_input.plans[0].compute_format.bits == 32:
        pytest.skip("no BF16 units here: any format meets them")
    with pytest.raises(InvalidTypeError, match=r"prepared for bfloat16, which meet float32"):
        popnn.lstm(x, [prepared])


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_weights_that_a_layer_packs_for_few_rows_are_taken_several_panels_at_once(rows):
    several = {k.level for k in kernels("dot") if k.op == "multiply_panels"}
    product = step_product(rows, 64, 256, contiguous(FP32, rows, 64), FP32, False, 0, host_target(None, "test"))
    assert (product.plan.call[1] > 1) == (rows < 4 and product.plan.kernel.level in several)
