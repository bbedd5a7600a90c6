"""Attention: formula, masks, shifts, orders of keys, shared heads, blocks, gradients, memory, bits; bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from poplibs_py import popnn, profile, testing
from poplibs_py.config import settings, thread_limit
from poplibs_py.errors import MemoryLimitWarning, PoplibsError
from poplibs_py.formats import BF16, F143, FP16, FP32
from poplibs_py.kernels import kernels
from poplibs_py.memo import forget
from poplibs_py.planner.facts import facts_of
from poplibs_py.popnn.attention import lower, plan
from poplibs_py.popsparse import BlockPattern, banded_pattern, random_pattern
from poplibs_py.testing import assert_same_bits, assert_within_bound
from tests.result_bits import bits

FORWARD, BACKWARD = "popnn.scaled_dot_product_attention", "popnn.scaled_dot_product_attention_grad"
attention, attention_grad = popnn.scaled_dot_product_attention, popnn.scaled_dot_product_attention_grad


def numbers(*shape, fmt=FP32, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(fmt.dtype)


def operands(queries, keys, d=16, heads=2, shares=1, fmt=FP32):
    return (numbers(heads * shares, queries, d, fmt=fmt), numbers(heads, keys, d, fmt=fmt, seed=1),
            numbers(heads, keys, d, fmt=fmt, seed=2))


def weights(q, k, keep=True):
    """In float64."""
    scores = np.where(keep, q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(1, 520), (53, 270)])
def test_it_is_the_formula_within_its_bound(fmt, queries, keys):
    q, k, v = operands(queries, keys, fmt=fmt)
    got = testing.check(FORWARD, q, k, v)
    ball = testing.bound(FORWARD, q, k, v)
    assert np.isfinite(ball.radius).all()
    assert (np.abs(weights(q, k) @ v.astype(np.float64) - ball.centre) <= 2.0**-40).all()
    y, lse = testing.check(FORWARD, q, k, v, causal=True, query_offset=keys - queries, return_lse=True)
    assert_same_bits(attention(q, k, v, causal=True, query_offset=keys - queries), y)
    testing.check(BACKWARD, got, q, k, v, y, lse, causal=True, query_offset=keys - queries)


def test_of_equal_scores_it_is_the_exact_mean():
    q, k = np.zeros((40, 8), np.float32), numbers(512, 8)
    v = np.random.default_rng(3).integers(-64, 64, (512, 5)).astype(np.float32)
    assert_same_bits(attention(q, k, v), np.repeat(v.mean(0, keepdims=True), 40, 0))
    lse = attention(q, k, v, return_lse=True).lse
    assert_within_bound(lse, testing.bound(FORWARD, q, k, v, return_lse=True)[1])
    assert np.abs(lse - np.log(512)).max() <= FP32.unit_roundoff * 16


def test_what_adds_the_same_to_all_scores_of_a_query_changes_nothing():
    q, k, v = operands(20, 300)
    scores = np.zeros((20, 300), np.float32)
    assert_same_bits(attention(q * 0, k, v, scores + np.float32(2.0)), attention(q * 0, k, v))
    shifted = attention(q, k, v, numbers(20, 1), scale=0.25)
    assert_within_bound(shifted, testing.bound(FORWARD, q, k, v, numbers(20, 1), scale=0.25))


def test_the_order_of_keys_matters_within_the_bound_alone():
    q, k, v = operands(9, 700)
    order = np.random.default_rng(4).permutation(700)
    ball = testing.bound(FORWARD, q, k, v)
    assert_within_bound(attention(q, k[:, order], v[:, order]), ball)


def test_a_key_that_does_not_count_is_as_none():
    q, k, v = operands(33, 100)
    mask = np.arange(100) < 64
    short = attention(q, k[:, :64], v[:, :64])
    for how in ({"mask": mask}, {"mask": np.where(mask, 0, -np.inf).astype(np.float32)},
                {"pattern": BlockPattern((33, 100), (33, 64), [0, 1], [0])}):
        assert_same_bits(attention(q, k, v, **how), short)
    k[:, 64:], v[:, 64:] = np.nan, 7.0
    assert_same_bits(attention(q, k, v, mask), short)


def test_a_query_without_keys_gives_zeros_and_has_no_gradient():
    q, k, v = operands(5, 40)
    mask = np.ones((5, 40), np.bool_)
    mask[3] = False
    y, lse = attention(q, k, v, mask, return_lse=True)
    assert (y[:, 3] == 0).all()
    assert (lse[:, 3] == -np.inf).all()
    grads = attention_grad(np.ones_like(y), q, k, v, y, lse, mask)
    assert (grads.q_grad[:, 3] == 0).all()
    rest = [0, 1, 2, 4]
    alone = attention_grad(np.ones_like(y[:, rest]), q[:, rest], k, v, y[:, rest], lse[:, rest])
    for got, due in zip(grads[1:], alone[1:], strict=True):
        assert_same_bits(got, due)
    assert (attention(q, k[:, :0], v[:, :0]) == 0).all()


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=str)
def test_elements_may_be_many(fmt):
    """More than the keys whose scores are held at a time."""
    q, k, v = numbers(2, 300, fmt=fmt), numbers(5, 300, fmt=fmt), numbers(5, 609, fmt=fmt)
    y, lse = testing.check(FORWARD, q, k, v, return_lse=True)
    testing.check(BACKWARD, y, q, k, v, y, lse)


def test_heads_share_keys():
    q, k, v = operands(7, 300, shares=3)
    repeated = [x.repeat(3, 0) for x in (k, v)]
    y, lse = attention(q, k, v, return_lse=True)
    assert_same_bits(y, attention(q, *repeated))
    grad = numbers(*y.shape, seed=5)
    shared, apart = attention_grad(grad, q, k, v, y, lse), attention_grad(grad, q, *repeated, y, lse)
    assert_same_bits(shared.q_grad, apart.q_grad)
    ball = testing.bound(BACKWARD, grad, q, k, v, y, lse)
    for got, due, of in zip(shared[1:], apart[1:], ball[1:], strict=True):
        assert_within_bound(got, of)
        assert_within_bound(due.reshape(2, 3, *due.shape[1:]).astype(np.float64).sum(1), of)


def test_a_cache_is_read_query_by_query():
    q, k, v = operands(40, 40)
    whole = attention(q, k, v, causal=True)
    for t in (0, 17, 39):
        one = attention(q[:, t:t + 1], k, v, causal=True, query_offset=t)
        assert_same_bits(one, whole[:, t:t + 1])
        assert_same_bits(attention(q[:, t:t + 1], k[:, :t + 1], v[:, :t + 1]), one)


@pytest.mark.parametrize("formats", [(FP32, FP32), (FP16, FP16), (BF16, BF16), (FP32, BF16), (FP16, F143)], ids=str)
@pytest.mark.parametrize("queries", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", [1, 16, 271, 512])
@pytest.mark.parametrize(("d", "e"), [(64, 64), (34, 150), (7, 5)])
def test_keys_and_values_of_few_queries_are_read_where_they_lie(formats, queries, keys, d, e):
    """With the bits of those that are packed, as for more queries; what lies between them does not count."""
    fmt, v_format = formats
    q, k, v = (numbers(2, *shape, fmt=own, seed=i) for i, (shape, own) in enumerate((
        ((queries, d), fmt), ((keys, d), fmt), ((keys, e), v_format))))  # fmt: skip
    apart = [np.full((2, keys + 1, 2 * x.shape[-1]), np.nan, x.dtype) for x in (k, v)]
    for to, x in zip(apart, (k, v), strict=True):
        to[:, :keys, : x.shape[-1]] = x
    how = {"causal": True, "query_offset": max(0, keys - queries)}
    got = testing.check(FORWARD, q, apart[0][:, :keys, :d], apart[1][:, :keys, :e], **how)
    assert np.isfinite(got.astype(np.float32)).all()
    assert_same_bits(attention(q, k, v, **how), got)
    if set(formats) != {BF16} or not plan.multiplies_bf16():
        assert_same_bits(attention(np.repeat(q, 5, 1), k, v)[:, ::5], attention(q, k, v))


@pytest.mark.parametrize(("queries", "fmt"), [(1, FP32), (2, FP32), (1, FP16), (4, FP16), (4, BF16)], ids=str)
def test_few_queries_have_kernels_of_their_own_where_fp32_is_multiplied_by_avx2(fmt, queries):
    made = plan.plan_attention(*params_of(*operands(queries, 40, fmt=fmt)), 1, kept=False)
    if made.product.kernel.level != "avx2":
        pytest.skip("another level's products")
    assert {name: own.formats for name, own in made.in_place.items()} == \
        dict.fromkeys(("across", "apart"), "float32" if fmt == FP32 else f"float32,{fmt}")
    assert not plan.plan_attention(*params_of(*operands(5, 40, fmt=fmt)), 1, kept=False).in_place
    said = made.explain().decisions
    assert said["keys"] == f"read where they lie: {made.in_place['across'].label}"
    assert said["values"] == f"read where they lie: {made.in_place['apart'].label}"


@pytest.mark.parametrize("fmt", [FP32, BF16], ids=str)
@pytest.mark.parametrize("block", [(32, 32), (8, 140), (5, 7)])
def test_blocks_are_the_mask_of_their_elements(block, fmt):
    q, k, v = operands(70, 150, fmt=fmt)
    patterns = (random_pattern(70, 150, block, 0.4, 1), banded_pattern(70, 150, block, below=1, above=0))
    both = BlockPattern((70, 150), block, np.concatenate([patterns[0].row_offsets,
                                                           patterns[1].row_offsets[1:] + patterns[0].n_blocks]),
                        np.concatenate([p.column_indices for p in patterns]), 2)
    for pattern in (patterns[0], both):
        y, lse = testing.check(FORWARD, q, k, v, pattern=pattern, causal=True, return_lse=True)
        grads = testing.check(BACKWARD, y, q, k, v, y, lse, pattern=pattern, causal=True)
        assert [g.shape for g in grads] == [x.shape for x in (q, k, v)]


def test_the_gradient_is_the_derivative():
    """By the derivative of the formula along a direction, in float64."""
    q, k, v = (x.astype(np.float32) for x in operands(11, 40))
    grad, keep = numbers(2, 11, 16, seed=7), np.tri(11, 40, 5, dtype=np.bool_)
    y, lse = attention(q, k, v, keep, return_lse=True)
    got = attention_grad(grad, q, k, v, y, lse, keep)
    ball = testing.bound(BACKWARD, grad, q, k, v, *(x.astype(np.float32) for x in (y, lse)), keep)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    p = weights(q, k, keep)
    d = p * (grad @ wide[2].swapaxes(-1, -2) - (grad * (p @ wide[2])).sum(-1, keepdims=True)) / 4.0
    due = d @ wide[1], d.swapaxes(-1, -2) @ wide[0], p.swapaxes(-1, -2) @ grad.astype(np.float64)
    of_y = testing.bound(FORWARD, q, k, v, keep, return_lse=True)
    lost = max(np.abs(grad).sum(-1).max() * of_y[0].radius.max(), 2 * of_y[1].radius.max()) * 40 * 8
    for one, exact, of in zip(got, due, ball, strict=True):
        assert (np.abs(one - exact) <= of.radius + lost).all()


def test_strides_and_threads_change_nothing():
    q, k, v = (numbers(2, 50, 3, 16, seed=s).transpose(0, 2, 1, 3) for s in range(3))
    lse_of = attention(q, k, v, causal=True, return_lse=True)
    grads = attention_grad(q, q, k, v, *lse_of, causal=True)
    with thread_limit(1):
        assert bits(attention(q, k, v, causal=True, return_lse=True)) == bits(lse_of)
        assert bits(attention_grad(q, q, k, v, *lse_of, causal=True)) == bits(grads)
    dense = [np.ascontiguousarray(x) for x in (q, k, v)]
    reversed_elements = [np.ascontiguousarray(x[..., ::-1])[..., ::-1] for x in dense]
    for same in (dense, reversed_elements, [np.asfortranarray(x) for x in dense]):
        assert bits(attention(*same, causal=True, return_lse=True)) == bits(lse_of)
    out = np.empty((2, 3, 16, 50), np.float32).swapaxes(-1, -2)
    assert attention(q, k, v, causal=True, out=out) is out
    assert_same_bits(np.ascontiguousarray(out), lse_of.y)


@pytest.mark.parametrize("level", sorted({k.level for k in kernels("attention")} - {"portable"}))
def test_products_of_fp32_have_the_same_bits_at_every_level(level, monkeypatch):
    def run(chosen, fmt, spread):
        own = lower.select

        def select(family, op, formats, **how):
            found = [k for k in kernels(family) if (k.level, k.op) == (chosen, op) and k.formats == formats]
            served = [k for k in kernels("attention") if (k.level, k.op) == (chosen, op)]
            pick = served if family == "attention" else found
            return type(own(family, op, formats, **how))(pick[0], ()) if pick else own(family, op, formats, **how)

        for module in (lower, plan):
            monkeypatch.setattr(module, "select", select)
        forget()
        q, k, v = operands(100, 300, fmt=fmt)
        q[:, ::2] *= q.dtype.type(spread)  # from some on powers are no normal numbers
        results = attention(q, k[:, :], v, causal=True, return_lse=True)
        made = bits(results), bits(attention_grad(q, q, k, v, *results, causal=True))
        monkeypatch.undo()
        forget()
        return made

    for fmt, spread in itertools.product((FP32, FP16), (1, 20, 60)):
        assert run("portable", fmt, spread) == run(level, fmt, spread)


def test_it_keeps_to_a_memory_limit_or_says_so():
    q, k, v = operands(200, 2000, heads=1)
    free = attention(q, k, v)
    assert_same_bits(attention(q, k, v, available_memory_proportion=0.4), free)
    made = [plan.plan_attention(p, settings.num_threads, kept) for p in params_of(q, k, v) for kept in (True, False)]
    least = f"the least that any plan takes is {made[1].temporary_bytes:,};"
    with pytest.warns(MemoryLimitWarning, match=least):
        assert_same_bits(attention(q, k, v, available_memory_proportion=1e-6), free)
    assert made[1].scratch_bytes < made[0].scratch_bytes < 4 * q.shape[1] * k.shape[1]
    for one in made:
        assert lower.lower(one).executable.temporary_bytes == one.temporary_bytes


@pytest.mark.parametrize("fmt", [FP32, BF16], ids=str)
def test_a_plan_says_kernels_threads_and_scratch_and_so_does_a_report(fmt):
    q, k, v = operands(200, 600, d=64, fmt=fmt)
    with thread_limit(2), profile() as report:
        y, lse = attention(q, k, v, return_lse=True)
        attention_grad(y, q, k, v, y, lse)
    strips = 2 * (4 if plan.on_tiles(report.runs[0].plan.params) else 5)
    for run, op, units in zip(report.runs, ("forward", "backward"), (strips, 2), strict=True):
        made, said = run.plan, run.plan.explain()
        assert (made.kernel.op, made.threads, made.units) == (op, 2, units)
        assert (run.kernel, run.flops) == (made.kernel.label, made.flops) == (said.chosen.name, made.params.flops)
        assert said.decisions["kernel"] == made.kernel.label
        assert said.decisions["products"] == f"{made.product.kernel.label}, compute format {made.compute_format}"
        assert said.decisions["threads"].startswith(f"2, {units} ")
        assert f"{made.scratch_bytes:,} bytes a thread: slots" in said.decisions["scratch"]
        assert lower.lower(made).executable.threads == 2
    assert report.runs[0].plan.explain().decisions["keys"] == "packed once"
    with profile() as report:
        attention(q, k, v, available_memory_proportion=0.9)
    facts = facts_of(report.runs[0].plan)
    assert facts.limit is not None
    assert facts.limit >= facts.temporary_bytes == report.runs[0].plan.temporary_bytes > 0


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize("all_of", [-1e9, -3e9, -1e30, np.finfo(np.float32).min, 3e9, 1e30])
def test_scores_may_be_as_large_as_fp32_is(all_of, fmt):
    q, k, v = operands(40, 300, fmt=fmt)
    mask = np.zeros((40, 300), np.float32)
    mask[:, :260] = all_of if all_of < 0 else 0.0  # the first keys of most queries do not count
    mask[30:] = all_of  # and those of the last all count as one, or a few
    scores = (weights_before(q, k) + mask).astype(np.float64)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    due = powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)
    y, lse = attention(q, k, v, mask, return_lse=True)
    np.testing.assert_allclose(y[:, :30].astype(np.float64), due[:, :30], atol=8 * fmt.unit_roundoff)
    if abs(all_of) > 1e12:  # where no score but the mask's own is told apart
        np.testing.assert_allclose(y[:, 30:].astype(np.float64), due[:, 30:], atol=8 * fmt.unit_roundoff)
    assert np.isfinite(lse).all()
    nothing = attention_grad(np.zeros_like(y), q, k, v, y, lse, mask)
    assert all(np.isfinite(np.float32(x)).all() and not np.asarray(x).any() for x in nothing)
    some = attention_grad(np.ones_like(y), q, k, v, y, lse, mask)
    assert all(np.isfinite(np.float32(x)).all() for x in some)


def weights_before(q, k):
    """Scores in FP32."""
    return (q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2)) * np.float32(q.shape[-1] ** -0.5)


@pytest.mark.parametrize("fmt", [FP32, BF16], ids=str)
@pytest.mark.parametrize("by", [1e10, 1e30])
def test_of_queries_far_from_zero_the_greatest_score_counts_alone(by, fmt):
    q, k, v = operands(20, 70, fmt=fmt)
    q = (q.astype(np.float32) * np.float32(by)).astype(fmt.dtype)
    y, lse = attention(q, k, v, return_lse=True)
    assert_same_bits(y, np.take_along_axis(v, (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)).argmax(
        -1)[..., None], 1))
    assert all(np.isfinite(np.float32(x)).all() for x in attention_grad(np.ones_like(y), q, k, v, y, lse))


@pytest.mark.parametrize("offset", [-9, -2, 0, 3, 5, 40])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 9), (9, 4), (1, 1), (4, 0)])
def test_operations_of_a_causal_call_are_those_of_scores_that_count(queries, keys, offset):
    q, k, v = operands(queries, keys)
    with profile() as report:
        attention(q, k, v, causal=True, query_offset=offset)
    counts = np.arange(keys) <= np.arange(queries)[:, None] + offset
    assert report.runs[0].flops == 2 * 2 * counts.sum() * (q.shape[-1] + v.shape[-1])


def params_of(q, k, v):
    """Of the calls that are recorded."""
    with profile() as report:
        attention(q, k, v)
    return [run.plan.params for run in report.runs]


@pytest.mark.parametrize(("how", "words"), [
    ({"k": numbers(3, 9, 8), "v": numbers(3, 9, 8)}, "k: got 3 heads; allowed: as many as q has, or a divisor"),
    ({"k": numbers(2, 9, 7)}, "k: got shape \\(2, 9, 7\\); allowed: 8 elements of a token, as q has"),
    ({"v": numbers(2, 8, 8)}, "v: got shape"),
    ({"q": numbers(8)}, "q: got shape"),
    ({"mask": np.ones((6, 9), np.bool_)}, "mask: got shape \\(6, 9\\)"),
    ({"mask": np.ones((5, 9), np.int32)}, "mask: got dtype int32"),
    ({"scale": np.nan}, "scale: got"),
    ({"query_offset": 3}, "query_offset: got 3; allowed: 0, where nothing is causal"),
    ({"pattern": BlockPattern((9, 5), 1, [0] * 10, [])}, "pattern: got shape"),
    ({"pattern": BlockPattern((5, 9), 1, [0] * 16, [], 3)}, "pattern: got 3 groups"),
    ({"pattern": 3}, "pattern: got"),
    ({"out": np.empty((4, 5, 9), np.float32)}, "out: got shape"),
    ({"target": "gc999"}, "target: "),
    ({"q": numbers(4, 5, 8).astype(np.float64)}, "astype"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(how, words):
    given = dict(zip("qkv", (numbers(4, 5, 8), numbers(2, 9, 8), numbers(2, 9, 8)), strict=True)) | how
    with pytest.raises(PoplibsError, match=words):
        attention(**given)


def test_what_a_gradient_takes_is_of_its_call():
    q, k, v = operands(5, 9)
    y, lse = attention(q, k, v, return_lse=True)
    for wrong, words in (((y[:, :4], q, k, v, y, lse), "grad: got shape"),
                         ((y, q, k, v, y[..., :3], lse), "y: got shape"),
                         ((y, q, k, v, y, lse[:1]), "lse: got shape"),
                         ((y, q, k, v, y, lse.astype(np.float16)), "lse: got dtype float16")):
        with pytest.raises(PoplibsError, match=words):
            attention_grad(*wrong)
    out = tuple(np.empty_like(x) for x in (q, k, v))
    assert attention_grad(y, q, k, v, y, lse, out=out)[0] is out[0]
    with pytest.raises(PoplibsError, match="out: got 2 items"):
        attention_grad(y, q, k, v, y, lse, out=out[:2])
