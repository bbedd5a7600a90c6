"""Images whose channels lie apart, rearranged: exact data bit for bit, sums of channels last, within any limit."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from poplibs_py import poplin, profile
from poplibs_py.formats import BF16, F143, FP16, FP32, Format
from poplibs_py.memo import forget
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv import rearranged
from poplibs_py.program import guard_arenas, memory_in_use, memory_peak
from poplibs_py.target import Target
from poplibs_py.testing import check
from tests.poplin.conv.passes import PASSES, expected, lying, run, shapes
from tests.poplin.conv.test_by_taps import layer
from tests.poplin.conv.test_passes import orders_of, plain

Array = np.ndarray[Any, Any]


@pytest.fixture
def whatever_pays(monkeypatch: pytest.MonkeyPatch) -> Any:
    """All images whose channels lie apart are rearranged, one at once."""
    with monkeypatch.context() as patched:
        patched.setattr(rearranged, "_pays", lambda *_: True)
        patched.setattr(rearranged, "_update_pays", lambda *_: True)
        patched.setattr(rearranged, "_ROWS", 1)
        patched.setattr(rearranged, "_CACHE_SHARE", 0.0)
        forget()
        yield
    forget()


@st.composite
def layers(draw: st.DrawFn) -> ConvParams:
    ndim = draw(st.integers(1, 3))

    def each(least: int, most: int) -> list[int]:
        return [draw(st.integers(least, most)) for _ in range(ndim)]

    kernels, dilations = each(1, 3), each(1, 2)
    fields = [(k - 1) * d + draw(st.integers(1, 6)) for k, d in zip(kernels, dilations, strict=True)]
    return layer(fields, kernels, each(0, 3), each(1, 2), dilations,
                 draw(st.sampled_from([(2, 3), (1, 1), (16, 5), (17, 33)])), draw(st.integers(1, 3)),
                 draw(st.sampled_from([1, 2, 16])))


def drawn(p: ConvParams, fmt: Format, orders: tuple[tuple[int, ...], ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    arrays = [lying(shape, order, fmt.dtype) for shape, order in zip(shapes(p), orders, strict=True)]
    for a in arrays:
        a[...] = rng.integers(-1, 2, a.shape)
    return arrays


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.usefixtures("whatever_pays")
@given(p=layers(), which=st.sampled_from(PASSES), fmt=st.sampled_from([FP32, BF16, FP16, F143]),
       share=st.sampled_from([None, 0.004, 0.05]), threads=st.sampled_from([1, 3]), seed=st.integers(0, 99))
@example(plain(3, (6, 7), 3, (4, 5)), "forward", BF16, None, 1, 0)
@example(plain(2, (6, 7), 3, (2, 3), groups=16), "input gradient", FP16, 0.05, 3, 0)
@example(plain(3, (8, 7), 3, (16, 5), stride=2), "input gradient", F143, None, 3, 0)
@example(plain(3, (5, 6, 7), 3, (4, 5)), "weight gradient", BF16, None, 3, 0)
@example(plain(2, (9, 8), 3, (1, 1), groups=16), "weight gradient", FP32, 0.05, 1, 0)
def test_whole_numbers_give_the_exact_sums_to_the_bit(p: ConvParams, which: str, fmt: Format, share: float | None,
                                                      threads: int, seed: int) -> None:
    if 0 in p.output_shape:
        return
    arrays = drawn(p, fmt, orders_of(p.ndim, False), seed)
    made = {"forward": 2, "input gradient": 0, "weight gradient": 1}[which]
    arrays[made] = lying(shapes(p)[made], orders_of(p.ndim, False)[made], np.float32)
    wanted = expected(which, p, *arrays)
    guard_arenas(True)
    try:
        lowered = run(which, p, *arrays, threads, available_memory_proportion=share)
    finally:
        guard_arenas(False)
    np.testing.assert_array_equal(arrays[made], wanted)
    plan = lowered.plan
    if plan.rearranged and plan.fits and share is not None:
        assert plan.temporary_bytes <= share * plan.target.bytes_per_tile * plan.threads
    assert lowered.executable.temporary_bytes == plan.temporary_bytes or not plan.rearranged


@pytest.mark.parametrize("fmt", [BF16, FP16, F143, FP32], ids=str)
@pytest.mark.parametrize("which", PASSES)
def test_what_gathers_much_is_rearranged_and_says_so(fmt: Format, which: str) -> None:
    caches = math.isqrt(Target.host(1).bytes_per_tile >> 19) or 1  # times the side of half a mebibyte's
    side = 28 if which == "weight gradient" else 40 * caches  # whose operands fit few caches
    p = plain(8, (side, side), 3, (32, 32))
    first, last = (run(which, p, *drawn(p, fmt, orders_of(2, one))).plan for one in (False, True))
    assert last.rearranged is None
    way = first.rearranged
    assert way is not None
    assert (way.chunks > 1) == (which != "weight gradient")
    names = "images and deltas" if which == "weight gradient" else "images and results"
    assert first.explain().decisions["channels"] == way.words
    assert way.words.startswith(f"{names} rearranged, channels side by side; ")


@pytest.mark.parametrize(("p", "which"), [
    (plain(2, (20, 20), 1, (32, 32), pad=0), "forward"), (plain(2, (20,), 3, (32, 32)), "forward"),
    (plain(1, (40, 40), 3, (16, 16)), "weight gradient"), (plain(1, (7, 7), 3, (256, 256)), "weight gradient"),
    (plain(1, (1, 1), 3, (32, 32)), "forward")])
def test_what_gathers_little_stays_where_it_lies(p: ConvParams, which: str) -> None:
    assert run(which, p, *drawn(p, FP16, orders_of(p.ndim, False))).plan.rearranged is None


@pytest.mark.parametrize("which", PASSES)
def test_what_takes_much_room_stays_where_it_lies(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rearranged, "_MOST_BYTES", 4096)
    p = plain(8, (41, 40), 3, (32, 32))
    forget()
    assert run(which, p, *drawn(p, BF16, orders_of(2, False))).plan.rearranged is None
    forget()


@pytest.mark.parametrize("fmt", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", [poplin.convolution, poplin.convolution_input_gradient, poplin.calculate_weight_deltas])
def test_sums_are_those_of_channels_last(op: Any, fmt: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 32, 20, 20)).astype(fmt)
    b = rng.standard_normal(a.shape if op is poplin.calculate_weight_deltas else (32, 32, 3, 3)).astype(fmt)
    last = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if x.shape == a.shape else x
            for x in (a, b)]
    with profile() as report:
        first, second = op(a, b, padding=1), op(*last, padding=1)
    ways = [each.plan.rearranged for each in report.runs]
    assert [way is None for way in ways] == [False, True]
    assert first.flags.c_contiguous
    np.testing.assert_array_equal(first.view(np.uint8), np.ascontiguousarray(second).view(np.uint8))
    check(op.__name__, a, b, padding=1)


@pytest.mark.usefixtures("whatever_pays")
@pytest.mark.parametrize("fmt", [np.float32, ml_dtypes.bfloat16])
def test_residual_bias_and_results_that_lie_otherwise(fmt: Any) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((3, 16, 9, 8)).astype(fmt), rng.standard_normal((16, 16, 3, 3)).astype(fmt)
    residual, bias = rng.standard_normal(x.shape).astype(fmt), rng.standard_normal(16).astype(np.float32)
    check("convolution", x, w, padding=1, residual=residual, bias=bias, activation="relu")
    with profile() as report:
        wanted = poplin.convolution(x, w, padding=1, residual=residual, bias=bias)
        for out in (np.zeros((3, 16, 9, 16), fmt)[..., ::2], np.zeros((3, 9, 8, 16), fmt).transpose(0, 3, 1, 2),
                    x.copy(), residual):
            images = out if np.array_equal(out, x) else x
            assert poplin.convolution(images, w, padding=1, residual=residual, bias=bias, out=out) is out
            np.testing.assert_array_equal(out, wanted)
    assert all(each.plan.rearranged for each in report.runs)


def test_room_is_counted_and_keeps_to_a_limit() -> None:
    x, w = np.ones((4, 32, 40, 40), np.float16), np.ones((32, 32, 3, 3), np.float16)
    out = np.empty_like(x)
    taken = {}
    for share in (None, 0.9, 0.5, 0.2, 0.05):
        for _ in range(2):
            with profile() as report:
                poplin.convolution(x, w, padding=1, out=out, available_memory_proportion=share, strict_memory=True)
        plan = report.runs[0].plan
        memory_peak(reset=True)
        before = memory_in_use()
        poplin.convolution(x, w, padding=1, out=out, available_memory_proportion=share, strict_memory=True)
        assert memory_peak() - before == plan.temporary_bytes == report.runs[0].temporary_bytes
        assert plan.limit is None or plan.temporary_bytes <= plan.limit
        taken[share] = plan.rearranged is not None
    assert taken[None]
    assert taken[0.9]
    assert not taken[0.05]  # an image and its result are 205 kB


@pytest.mark.usefixtures("whatever_pays")
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_weights_are_packed_once(name: str) -> None:
    p = ConvParams.create(batch=3, field=[9, 8], kernel=[3, 3], in_channels=40, out_channels=20, groups=2)
    x, w = np.ones((3, 80, 9, 8), name), np.ones((2, 20, 40, 3, 3), name)
    plan = poplin.plan_convolution(p, target="host", dtype=name)
    run = poplin.compile_convolution(plan, w)
    assert plan.rearranged
    assert run.plan.rearranged  # type: ignore[attr-defined]
    for value in (1, 2):
        assert (run(x * x.dtype.type(value)).astype(float) == 360 * value).all()
    x[0, 3, 4, 4] = np.inf
    np.testing.assert_array_equal(run(x), poplin.compile_convolution(plan)(x, w))


@pytest.mark.usefixtures("whatever_pays")
def test_several_at_once() -> None:
    x, w = np.ones((2, 16, 9, 8), np.float32), np.ones((8, 16, 3, 3), np.float32)
    rows = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for made in poplin.multiconv.convolution([(x, w), (rows, w), (x, w, {"padding": 1})]):
        assert (made[:, :, 3, 3] == 144).all()
