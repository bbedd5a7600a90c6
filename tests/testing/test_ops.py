"""Every op on any bit patterns is within its own bound; references, fractions and bounds agree."""

import importlib
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError
from poplibs_py.formats import FORMATS, QuarterArray, format_of
from poplibs_py.formats.arrays import as_array
from poplibs_py.ops import catalogue
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.popops.expr import _1, _2
from poplibs_py.popops.maps import gradients as binary_gradients
from poplibs_py.popops.reductions import named as reductions
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.testing.calls import calls
from poplibs_py.testing.exact_ops import EXACT
from poplibs_py.testing.ops import PREPARED
from poplibs_py.testing.replay import decode_call

GRADIENTS = binary_gradients.__all__
REDUCTIONS = [*reductions.__all__, "reduce"]
RANDOM = [name for name in catalogue if name.startswith("poprand.")]
OPS = [*(name for name in catalogue if name not in RANDOM), *PREPARED]


def full(op):
    return testing.find_op(op).name


@pytest.mark.parametrize("op", [*OPS, *RANDOM])
@settings(max_examples=settings.default.max_examples // 2,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_call_is_within_its_bound(op, data):
    operands, keywords = data.draw(calls(op))
    testing.check(op, *operands, **keywords)


def convolutions(a, b):
    images, kernels = a.reshape(1, 2, 2, 4), b[:, :2].reshape(2, 2, 1, 2)  # of which a result is [1, 2, 2, 3]
    deltas = np.arange(-6, 6, dtype=np.float16).reshape(1, 2, 2, 3)
    bias = np.array([3, -1], np.float16)
    return {
        "convolution": (images, kernels), "convolution_with_output": (images, kernels, deltas),
        "convolution_input_gradient": (deltas, kernels), "calculate_weight_deltas": (deltas, images),
        "convolution_weight_update": (deltas, kernels, images, 0.5), "add_bias": (deltas, bias),
        "convolution_bias_update": (deltas, bias, -2.0),
    }  # fmt: skip


NORMS = ("batch", "instance", "layer", "rms")


def elementwise_operands(row, a, b):
    """Operands of an elementwise operation."""
    if "f" not in row.kinds:
        a, b = (a > 0, b > 0) if row.kinds == "b" else (a.astype(np.int32), np.abs(b).astype(np.int32))
    return tuple(a > b if name in row.conditions else x for name, x in zip(row.operands, (a, b, a + b), strict=False))


def slices(a, b):
    """Slices by index of the rows of a, and what b does to them."""
    rows, places, window = np.array([2, 0, 2, 3]), np.array([3]), (0, 2)
    made = {"embedding_bag": (a, rows[None]), "embedding_gradient": (b, rows, 4), "select_scalar_from_rows": (a, rows),
            "update_scalar_in_rows": (a, rows), "sequence_slice": (a, b, places - 1, places - 3, places - 2),
            "gather": (a, rows), "scatter": (a, rows, b), "dynamic_slice": (a, places, *window),
            "dynamic_update": (a, b[:2], places, 0), "multi_slice": (a, rows),
            "grouped_multi_slice": (a[None], rows[None])}
    for name in ("", "_add", "_max", "_mul"):
        made |= {f"multi_update{name}": (a, b, rows), f"grouped_multi_update{name}": (a[None], b[None], rows[None])}
    return {f"popops.{name}": operands for name, operands in made.items()}


def ordered_operands(a, b):
    """Rows to put in order, and what goes with them."""
    return {"argpartition": (a, 1), "argsort": (a,), "popops.partition": (a, 1), "popops.sort": (a,),
            "sort_key_value": (a, b), "popops.top_k": (a, 3), "top_k_key_value": (a, b, 3),
            "top_k_with_permutation": (a, 3)}


def exact_operands(op):
    """Operands of small whole numbers, whose results every format of theirs holds."""
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-8, 8, (4, 4)).astype(np.float16) for _ in range(3))
    w = BlockSparseMatrix.from_dense(a.astype(np.float32), 2, density=0.5, dtype="bfloat16")
    single = BlockSparseMatrix.from_dense(a.astype(np.float32), 2, density=0.5)
    pair = BlockSparseMatrix.from_dense(np.stack([a, b]).astype(np.float32), 2, density=0.5)
    batch = np.concatenate([b, c], 1)
    definite, channels = (np.eye(4) * 16 + 4).astype(np.float32), np.float32([1, 2, -4, 8])
    apart = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)  # no two paths alike
    steps, gates = a[None].astype(np.float32) / 16, np.stack([a, b, c, a]).astype(np.float32) / 16
    made = {
        "sparse_sparse_matmul": (single, single), "popsparse.dynamic.embedding_slice": (w, np.array([2, 0])),
        "embedding_update_add": (single, b.astype(np.float32)[:2], np.array([1, 1]), 2.0),
        "bs_matmul": (b, w), "bs_matmul_sampled": (single, b, c),
        "bs_softmax": (single,), "bs_softmax_grad": (single, single), "cast": (a, "f143"), "quantise": (a, "f143"),
        "static.dense_sparse_matmul": (b, w), "dense_sparse_matmul_prepared": (b, w),
        "dynamic.dense_sparse_matmul": (b, w), "dynamic.sparse_dense_matmul": (w, b),
        "fully_connected_fwd": (pair, batch), "fully_connected_grad_a": (pair, batch),
        "fully_connected_sparse_grad_w": (pair, batch, batch[:, ::-1]),
        **convolutions(a, b),
        "matmul": (a, b), "matmul_acc": (c, a, b), "matmul_grouped": (a[None], b[None]),
        "matmul_grouped_acc": (c[None], a[None], b[None]), "matmul_prepared": (a, b), "matmul_prepared_left": (a, b),
        "static.sparse_dense_matmul": (w, b), "sparse_dense_matmul_prepared": (w, b), "sparse_grad_w": (w.T, b, c),
        **{f"popops.{name}": elementwise_operands(row, a, b) for name, row in ELEMENTWISE.items()},
        **dict.fromkeys((f"popops.{name}" for name in REDUCTIONS), (a, 1)), "popops.prod": (a[:1], 0),
        **dict.fromkeys((f"popops.cumulative_{name}" for name in ("max", "min", "prod", "sum")), (a,)),
        "popops.cumulative_prod": (a[:1, :3],), "histogram": (a, np.float32([-2, 0, 3])),
        "bincount": (np.arange(9) % 4,), **dict.fromkeys(GRADIENTS, (a, b, c)), "select_grad": (a, b > 0),
        "div_grad": (a, np.exp2(np.abs(b) / 2), c), "clamp_grad": (a, b, c - 4, c + 4),
        **slices(a, b),
        **ordered_operands(a, b),
        "encode_one_hot": (np.int32([2, 0, 1, -1]), 3), "fill": ((2, 3), 5.0), "iota": (4, 3), "popops.pad": (a, 1),
        "popops.transpose": (a,),
        "normalise_image": (a[:, :3], b[0, :3], c[0, :3]), "spline_weighting": (a, a[None], b, np.zeros((4, 4), int)),
        "spline_basis": (a[:1, :1], np.int32([5]), np.uint8([0])),
        **dict.fromkeys(("cholesky", "lu", "qr"), (definite,)), "cholesky_grad": (definite, definite),
        "lu_grad": (a, a, np.arange(len(a)), definite, definite), "qr_grad": (a, a, a, definite),
        "triangular_solve": (definite, b), "triangular_solve_grad": (a, definite, b), "linspace": (0.0, 8.0, 5),
        "meshgrid2d": (a[0], b[0]), "norm_statistics": (a, 1.0), "norm_whiten": (a, channels, channels),
        "normalise": (a, channels, channels), "norm_gradients": (a, channels), "norm_param_gradients": (a, b),
        "norm_statistics_gradients": (a, b, channels), "popops.map": (_1 * 2 + _2, a, b), "scaled_add": (a, b, 2),
        **dict.fromkeys((f"popnn.{name}" for name in ("softmax", "log_softmax", "scaled_softmax_stable")), (a,)),
        **dict.fromkeys((f"popnn.{name}_norm" for name in NORMS), (a[None],)), "popnn.group_norm": (a, 2),
        **dict.fromkeys((f"popnn.{name}_norm_grad" for name in NORMS), (a, b)), "popnn.group_norm_grad": (a, b, 2),
        "popnn.batch_normalise": (a, b[0], b[1]), "batch_norm_inference": (a, b[0], np.abs(b[1])),
        "batch_norm_training": (a,), "batch_norm_statistics": (a,),
        "calc_loss": (np.abs(a), np.arange(4, dtype=np.int32), "SUM_SQUARED_LOSS"),
        "cross_entropy": (a, np.arange(4, dtype=np.int32)),
        **dict.fromkeys(("mse_loss", "huber_loss", "binary_cross_entropy_with_logits"), (a, np.abs(b))),
        **dict.fromkeys(("binary_cross_entropy", "kl_divergence"), (np.abs(np.sin(a)), np.abs(np.sin(b)))),
        **dict.fromkeys(("popnn.softmax_grad", "popnn.log_softmax_grad"), (a, b)),
        **poolings(a, b), "scaled_subtract": (a, b, 2), "x_minus_ax_plus_by": (a, b, 2, 3),
        **dict.fromkeys(("ctc_loss", "ctc_loss_and_gradient"), (-np.abs(a[:, None]), np.array([[1, 2]]))),
        **dict.fromkeys(("ctc_greedy_decoder", "ctc_beam_search_decoder"), (apart[:, None],)),
        "lstm_fwd": (steps, gates, gates), "gru_fwd": (steps, gates[:3], gates[:3]), "rnn_fwd": (steps, *gates[:2]),
        "lstm_bwd": (steps, steps, gates, gates), "gru_bwd": (steps, steps, gates[:3], gates[:3]),
        "rnn_bwd": (steps, steps, *gates[:2]), "lstm_wu": (steps[:, :, None].repeat(4, 2), steps, steps),
        "gru_wu": (steps[:, :, None].repeat(3, 2), steps, steps, steps[:, :, None].repeat(3, 2)),
        "rnn_wu": (steps, steps, steps), **attentions(a, b),
    }  # fmt: skip
    return {full(name): operands for name, operands in made.items()}[full(op)]


def attentions(a, b):
    """Attention of one head, and its gradient."""
    return {"scaled_dot_product_attention": (a, b, b),
            "scaled_dot_product_attention_grad": (a, a, b, b, a, np.full(len(a), 8.0, np.float32))}


def poolings(a, b):
    """Poolings and ROIAlign of one channel, and their gradients."""
    x, y = a[None, None], b[None, None, :2, :2]
    box = np.float32([[0, 0, 2, 2]]), np.zeros(1, np.int64)
    return {"roi_align": (x, *box, 2, 2), "roi_align_input_gradient": (y, *box, x.shape),
            "popnn.pool": (x, 2), "max_pool_with_indices": (x, 2),
            "pool_input_gradient": (y, x.shape, 2, "sum"),
            "pool_indices_gradient": (y, np.arange(4).reshape(y.shape), x.shape)}


def parts(result):
    """Several results, or one alone."""
    return tuple(part for of in result for part in parts(of)) if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_bound_a_reference_a_strategy_and_fractions(op):
    operands = exact_operands(op)
    ball = testing.bound(op, *operands)
    for part, of_part in zip(parts(testing.reference(op, *operands)), parts(ball), strict=True):
        np.testing.assert_array_equal(part, of_part.centre)
    if full(op) not in EXACT:  # irrational, quotients, or not worth it
        with pytest.raises(InvalidArgumentError, match=f"^op: got {op}; allowed: one whose results"):
            testing.exact(op, *operands)
    else:
        assert (ball.centre == testing.exact(op, *operands)).all()
    testing.check(op, *operands)


@pytest.mark.parametrize("op", sorted(set(OPS) - {"popops.cast", "popfloat.quantise"}))
def test_a_result_that_is_wrong_is_found(op):
    operands = exact_operands(op)
    ball, got = (parts(made)[-1] for made in (testing.bound(op, *operands), testing.check(op, *operands)))
    numbers = np.array(got.blocks if isinstance(got, BlockSparseMatrix) else got)
    numbers = np.asarray(1.5 + numbers) if numbers.dtype.kind in "biu" else numbers
    place = np.unravel_index(np.nanargmax(np.where(np.isinf(ball.centre), 0, np.abs(ball.centre))), ball.shape)
    numbers[place] *= 1.01
    with pytest.raises(AssertionError, match="outside their bounds"):
        testing.assert_within_bound(numbers, ball)


@pytest.mark.parametrize("wanted", [
    lambda a, b, how: how.get("half_passes") == 3,
    lambda a, b, how: isinstance(a, QuarterArray) and a.block_shape is not None and b.ndim > 1,
    lambda a, b, how: isinstance(b, QuarterArray) and isinstance(b.scale, int) and b.scale < 0,
    lambda a, b, how: isinstance(a, QuarterArray) and a.format.dtype is None,
    lambda a, b, how: (a.ndim, b.ndim) == (1, 3),
    lambda a, b, how: a.ndim == b.ndim == 1 and "bias" in how,
    lambda a, b, how: a.shape[:-2] == (2, 1) and b.shape[:-2] == (1, 3),
])  # fmt: skip


def test_calls_of_every_kind_are_drawn(wanted):
    operands, how = find(calls("matmul"), lambda call: wanted(*call[0], call[1]),
                         settings=settings(max_examples=2000, phases=[Phase.generate]))
    assert wanted(*operands, how)


@pytest.mark.parametrize("op", OPS)
def test_a_failing_check_names_its_kernels_and_a_line_that_makes_it_again(op, monkeypatch):
    path, _, name = full(op).rpartition(".")
    module = importlib.import_module(f"poplibs_py.{path}")
    right = getattr(module, name)

    def wrong(*operands, **keywords):
        got = right(*operands, **keywords)
        for part in parts(got):
            numbers = part.blocks if isinstance(part, BlockSparseMatrix) else np.asarray(part)
            if numbers.dtype == bool:
                numbers ^= True
            else:
                numbers += numbers.dtype.type(16)
        return got

    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError, match="outside their bounds") as caught:
        testing.check(op, *exact_operands(op))
    *_, kernel, again = str(caught.value).splitlines()
    assert re.fullmatch(r"  kernel: (NumPy, )?\w\S* \(\w+\)(, \w\S* \(\w+\))*", kernel)
    assert "testing.replay('" in again
    monkeypatch.undo()
    _, operands, keywords = decode_call(re.search(r"replay\('(.*)'\)", again)[1])
    testing.check(op, *operands, **keywords)  # operands as they were before the call
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError, match="kernel: mine"):
        testing.check(op, *exact_operands(op), kernel_name="mine")


def test_a_result_that_is_a_bit_off_is_no_exact_one(monkeypatch):
    right = poplin.matmul
    monkeypatch.setattr(poplin, "matmul", lambda a, b: np.nextafter(right(a, b), np.float32(0)))
    operands = [x.astype(np.float32) for x in exact_operands("matmul")]
    testing.check("matmul", *operands)
    with pytest.raises(AssertionError, match=r"results differ; the first:[^$]*\n  kernel: \w.*\n  again: "):
        testing.check_exact("matmul", *operands)


@pytest.mark.parametrize("op", sorted(set(EXACT) - {"popsparse.bs_softmax_grad"}))
def test_exact_operands_give_exact_results(op):
    testing.check_exact(op, *exact_operands(op))


def test_a_result_of_another_shape_names_its_kernels_too(monkeypatch):
    right = poplin.matmul
    monkeypatch.setattr(poplin, "matmul", lambda a, b: right(a, b)[1:])
    with pytest.raises(AssertionError, match=r"got shape \(3, 4\); .*\n  kernel: \w.*\n  again: "):
        testing.check("matmul", *exact_operands("matmul"))


def test_a_check_that_passes_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    a, b = (testing.random_operand((100, 100), "float32", seed) for seed in (1, 2))
    testing.check("matmul", a, b)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("poplibs_py.poplin.matmul", lambda a, b: a)
    with pytest.raises(AssertionError):
        testing.check("matmul", a, b)
    assert len(list(tmp_path.iterdir())) == 1


def test_an_unknown_op_is_named_with_those_there_are():
    with pytest.raises(InvalidArgumentError, match=r"op: got matmull \(did you mean 'matmul'\?\); allowed: a name in "):
        testing.bound("matmull")


def test_a_transcendental_activation_has_no_fractions():
    with pytest.raises(InvalidArgumentError, match="activation"):
        testing.exact("matmul", np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), activation="gelu")


def test_values_of_a_quarter_array_carry_its_scales():
    q = QuarterArray.from_array([[1.0, 2.0], [300.0, -4000.0]], "f143", scale="auto", block_shape=(1, -1))
    assert np.array_equal(testing.values_of(q), q.to_array(np.float64))


def vector_calls():
    """Calls with vectors, where ops take them, and what biases they then have."""
    rng = np.random.default_rng(2)
    a, stack, x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 6), (3, 5, 6), (6,), (5,)))
    w = BlockSparseMatrix.from_dense(a, (2, 3), density=0.6)
    column, one = y[:, None], np.ones(1, np.float32)
    for op, operands in [
        ("matmul", (a, x)), ("matmul", (stack, x)), ("matmul_acc", (y, a, x)), ("matmul_prepared_left", (a, x)),
    ]:  # fmt: skip
        yield from ((op, operands, how) for how in ({}, {"bias": column}, {"bias": one, "activation": "relu"}))
    for op, operands in [
        ("matmul", (y, a)), ("matmul", (y, stack)), ("matmul_acc", (x, y, a)), ("matmul_prepared", (y, a)),
        ("static.dense_sparse_matmul", (y, w)), ("static.sparse_dense_matmul", (w.T, y)),
    ]:  # fmt: skip
        yield from ((op, operands, how) for how in ({}, {"bias": x, "activation": "relu"}))
    yield from (("matmul", (x, x), how) for how in ({}, {"bias": one}))
    yield "static.sparse_dense_matmul", (w, x), {"bias": y}
    yield "dynamic.sparse_dense_matmul", (w.T, x), {"transpose_lhs": True}
    yield "dynamic.sparse_dense_matmul", (w, x), {"transpose_rhs": True}
    yield "dynamic.dense_sparse_matmul", (x, w), {"transpose_rhs": True}


@pytest.mark.parametrize("call", list(vector_calls()), ids=lambda call: f"{call[0]}-{'-'.join(call[2])}")
def test_vectors_have_references_fractions_and_bounds(call):
    op, operands, keywords = call
    exact, reference = testing.exact(op, *operands, **keywords), testing.reference(op, *operands, **keywords)
    ball = testing.bound(op, *operands, **keywords)
    got = testing.check(op, *(np.array(x) if isinstance(x, np.ndarray) else x for x in operands), **keywords)
    assert exact.shape == reference.shape == ball.shape == got.shape
    assert np.array_equal(exact.astype(float), reference)
    assert np.array_equal(reference, ball.centre)
    assert np.array_equal(reference, got)


@pytest.mark.parametrize("how", [testing.exact, testing.reference, testing.bound, testing.check])
@pytest.mark.parametrize("operands", [(), (None, None), ("a", 3), (np.ones(3, np.float32),) * 5, (object(), [[]])])
def test_operands_that_an_op_cannot_take_are_refused(how, operands):
    for op in OPS:
        with pytest.raises(PoplibsError):
            how(op, *operands)


def test_torch_tensors_are_operands_and_results():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 7), (7, 3)))
    w = BlockSparseMatrix.from_dense(rng.normal(size=(8, 7)), 2)
    for name in (fmt.dtype.name for fmt in FORMATS):
        dtype = getattr(torch, name)
        assert format_of(dtype) == format_of(name)
        left, right = (torch.tensor(x).to(dtype) for x in (a, b))
        same = [as_array("x", x, "numbers") for x in (left, right)]
        for function in (testing.bound, testing.reference, testing.exact):
            made, due = function("matmul", left, right), function("matmul", *same)
            if function is testing.bound:
                np.testing.assert_array_equal(made.radius, due.radius)
                made, due = made.centre, due.centre
            np.testing.assert_array_equal(made, due)
        got = poplin.matmul(left, right, out_dtype="float32")
        assert (testing.ulp_error(torch.tensor(got), got.astype(np.float64)) == 0).all()
        assert (testing.ulp_distance(left, same[0]) == 0).all()
        assert np.isfinite(testing.ulp_error(left, a)).all()
        testing.assert_within_bound(torch.tensor(got), testing.bound("matmul", left, right, out_dtype="float32"))
        testing.assert_same_bits(left, same[0])
        testing.check("matmul", left, right, bias=torch.ones(3))
        testing.check("static.sparse_dense_matmul", w, right)
        out = torch.zeros((5, 3))
        assert testing.check("matmul", left, right, out=out) is out
    grad = torch.tensor(a, requires_grad=True)
    for call in (lambda: testing.bound("matmul", grad, b), lambda: testing.ulp_error(grad, a)):
        with pytest.raises(InvalidTypeError, match="requires a gradient"):
            call()
