"""Several convolutions in one program: the bits of each alone, on this CPU; their plan's on modelled machines."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin, popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitWarning
from poplibs_py.formats import F143, QuarterArray
from poplibs_py.planner import PlanCache
from poplibs_py.poplin import multiconv
from poplibs_py.poplin.conv.several import HostConvPlans
from poplibs_py.poplin.tile_conv import ConvParams, MultiPlan
from poplibs_py.poplin.tile_conv.multi import plan_convolutions
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits

RNG = np.random.default_rng(3)


def numbers(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def layers(dtype: str = "float32", **how: Any) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Convolutions of all ways that there are."""
    def made(x: tuple[int, ...], w: tuple[int, ...], **own: Any) -> tuple[Any, Any, dict[str, Any]]:
        return numbers(*x, dtype=dtype), numbers(*w, dtype=dtype), how | own

    return [
        made((1, 16, 9, 9), (20, 16, 3, 3), padding=1, bias=numbers(20, dtype=dtype), activation="relu"),
        made((2, 9, 9, 8), (1, 1, 8, 12), layout="NHWC"),
        made((1, 32, 24, 24), (32, 32, 3, 3), padding=1),
        made((1, 32, 9, 9), (32, 1, 3, 3), groups=32, stride=2),
        made((1, 40, 11), (40, 20, 5), transpose_and_flip_weights=True, padding=4, out_dtype="float32"),
    ]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("winograd", [False, True])
def test_each_has_the_bits_that_it_has_alone(threads: int, winograd: bool) -> None:
    calls = layers(winograd=winograd) * 3  # more arrays than one program takes
    with thread_limit(threads):
        got = multiconv.convolution(calls)
        for _ in range(2):
            for y, (x, w, how) in zip(got, calls, strict=True):
                alone = poplin.convolution(x, w, **how)
                assert_same_bits(y, alone)
                assert y.strides == alone.strides


def test_results_go_where_they_are_wanted_and_nothing_else_is_taken() -> None:
    calls = layers(winograd=True, available_memory_proportion=0.9, strict_memory=True)
    alone = [poplin.convolution(x, w, **how) for x, w, how in calls]
    outs = [np.empty_like(y) for y in alone]
    given = [(x, w, how | {"out": out}) for (x, w, how), out in zip(calls, outs, strict=True)]
    with profile() as report:
        assert all(y is out for y, out in zip(multiconv.convolution(given), outs, strict=True))
    (run,) = report.runs
    assert isinstance(run.plan, HostConvPlans)
    assert run.op == "poplin.multiconv.convolution"
    assert len(run.plan.plans) == len(calls)
    apart = [plan for plan in run.plan.plans if plan.rearranged]
    assert run.plan.at_once + len(apart) == len(calls)
    assert run.written_bytes == sum(out.nbytes for out in outs)
    assert run.temporary_bytes is not None
    assert run.flops == sum(plan.flops for plan in run.plan.plans)
    for out, y in zip(outs, alone, strict=True):
        assert_same_bits(out, y)
    memory_peak(reset=True)
    before = memory_in_use()
    multiconv.convolution(given)
    assert memory_peak() - before <= 0.9 * run.plan.plans[0].target.bytes_per_tile * run.plan.threads
    at_once = f"{len(calls)} convolutions{f', {run.plan.at_once}' if apart else ''} at once"
    assert at_once in str(run.plan)
    assert at_once in str(report)


def test_gradients_of_weights() -> None:
    calls: list[tuple[Any, ...]] = [
        (numbers(1, 20, 9, 9), numbers(1, 16, 9, 9), {"padding": 1, "kernel_shape": 3}),
        (numbers(2, 8, 7), numbers(2, 6, 9)), (numbers(1, 32, 5, 5), numbers(1, 32, 7, 7), {"groups": 32})]
    for dw, (deltas, x, *how) in zip(multiconv.calculate_weight_deltas(calls), calls, strict=True):
        assert_same_bits(dw, poplin.calculate_weight_deltas(deltas, x, **(how[0] if how else {})))


def updates(dtype: str) -> list[tuple[Any, ...]]:
    """Updates of weights of several kinds."""
    return [
        (numbers(1, 20, 9, 9, dtype=dtype), numbers(20, 16, 3, 3, dtype=dtype), numbers(1, 16, 9, 9, dtype=dtype), -0.3,
         {"padding": 1}),
        (numbers(2, 8, 7, dtype=dtype), numbers(8, 6, 3, dtype=dtype), numbers(2, 6, 9, dtype=dtype), 0.5),
        (numbers(1, 5, 5, 32, dtype=dtype), numbers(3, 3, 1, 32, dtype=dtype), numbers(1, 7, 7, 32, dtype=dtype), 2,
         {"groups": 32, "layout": "NHWC"}),
    ]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_updates_of_weights(dtype: str, threads: int) -> None:
    calls = updates(dtype)
    alone = [poplin.convolution_weight_update(deltas, w.copy(), x, scale, **(how[0] if how else {}))
             for deltas, w, x, scale, *how in calls]
    with thread_limit(threads):
        got = multiconv.convolution_weight_update(calls)
    for w, due, call in zip(got, alone, calls, strict=True):
        assert w is call[1]
        assert_same_bits(w, due)


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_modelled_machines_update_weights_in_one_program(kind: str) -> None:
    calls = updates("float16")
    with profile(target="gc200") as report:
        deltas = multiconv.calculate_weight_deltas(
            [(d, x, {"kernel_shape": 3} | (how[0] if how else {})) for d, _, x, _, *how in calls],
            multi_options={"planType": kind})
        due = [popops.scaled_add(w, dw, scale) for (_, w, _, scale, *_), dw in zip(calls, deltas, strict=True)]
        got = multiconv.convolution_weight_update(calls, multi_options={"planType": kind})
    for w, one, call in zip(got, due, calls, strict=True):
        assert w is call[1]
        assert_same_bits(w, one)
    gradients, *_, run = report.runs
    assert (run.op, run.lacking) == ("poplin.multiconv.convolution_weight_update", "")
    assert run.plan.plans == gradients.plan.plans
    assert run.plan.cycles == gradients.plan.cycles + sum(plan.cycles for plan in run.plan.updates)
    assert len(run.plan.updates) == 3


def test_results_of_no_products_are_written() -> None:
    x, w, bias = np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32), np.float32([3])
    how = {"stride": 2, "padding": 1}
    (y,) = multiconv.convolution([(x, w, how | {"bias": bias, "out": np.full((1, 1, 2), 7, np.float32)})])
    assert y.tolist() == [[[3, 3]]]
    how |= {"kernel_shape": 1, "out": np.full((1, 1, 1), 7, np.float32)}
    (y,) = multiconv.calculate_weight_deltas([(np.ones((1, 1, 2), np.float32), x, how)])
    assert y.tolist() == [[[0]]]


def test_nothing_and_empty_results() -> None:
    assert multiconv.convolution([]) == []
    some = multiconv.convolution([(numbers(0, 4, 5), numbers(3, 4, 2)), (numbers(1, 4, 5), numbers(3, 4, 2))])
    assert [y.shape for y in some] == [(0, 3, 4), (1, 3, 4)]


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_modelled_machines_plan_them_together(kind: str) -> None:
    calls = [call for call in layers("float16") if "out_dtype" not in call[2]][:3]
    with profile() as report:
        got = multiconv.convolution(calls, target="gc200", multi_options={"planType": kind})
    (run,) = report.runs
    assert isinstance(run.plan, MultiPlan)
    assert run.plan.parallel == (kind == "parallel")
    assert run.exchanged_bytes
    assert "3 convolutions" in str(report)
    for y, (x, w, how) in zip(got, calls, strict=True):
        alone = poplin.convolution(x, w, target="gc200", **how)
        assert y.shape == alone.shape
        assert np.allclose(y.astype(float), alone.astype(float), rtol=2e-2, atol=2e-2)
        if kind == "serial":
            assert_same_bits(y, alone)


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_modelled_machines_keep_to_the_bounds_of_their_plans(kind: str) -> None:
    how = {"target": "gc200", "multi_options": {"planType": kind}}
    nothing = np.zeros((0, 8, 9, 9), np.float16), numbers(8, 8, 3, 3, dtype="float16")
    calls = [call for call in layers("float16") if "out_dtype" not in call[2]]
    for _ in range(2):
        testing.check("multiconv.convolution", [*calls[:2], nothing], **how)
        testing.check("multiconv.convolution", [nothing], **how)
        testing.check("multiconv.convolution", calls[:2], seed=3, **how)
        testing.check("multiconv.convolution_weight_update", updates("float16"), **how)
    assert multiconv.convolution([], target="gc200") == []


def test_what_a_machine_lacks_runs_here() -> None:
    half, single = layers("float16")[1], layers("bfloat16")[1]
    with profile(target="gc200") as report:
        got = multiconv.convolution([half, single])
    (run,) = report.runs
    assert "bfloat16" in run.lacking
    assert isinstance(run.plan, MultiPlan)
    assert_same_bits(got[0], poplin.convolution(half[0], half[1], target="gc200", **half[2]))
    assert_same_bits(got[1], poplin.convolution(single[0], single[1], **single[2]))


def scaled(x: Any, **blocks: Any) -> QuarterArray:
    blocks_of = tuple(-(-n // b) for n, b in zip(x.shape, blocks["block_shape"], strict=True))
    scale = np.arange(np.prod(blocks_of)).reshape(blocks_of) - 1
    return QuarterArray(x.astype(F143.dtype), F143, scale.astype(np.int8), **blocks)


def test_a_repeated_call_is_kept_whatever_is_in_its_list() -> None:
    x, w, tile = numbers(1, 4, 8), numbers(3, 4, 2), {"block_shape": (1, 2, 8)}
    quarters = QuarterArray(x.astype(F143.dtype), F143, 3), QuarterArray(w.astype(F143.dtype), F143, -2)
    for more, kept in [
        ([(x, w)], 1), ([(x, w), (x, w, {"bias": numbers(3), "activation": "relu", "padding": [1]})], 1),
        ([(*quarters, {"layout": "NCHW"})], 1), ([(scaled(x, **tile), w), (x, w)], 1), (((x, w), [x, w]), 1),
        ([(x, w, {"out_dtype": "e3m2"}), (x, w)], 1), ([(x, w, {"out": np.empty((1, 3, 7), np.float32)}), (x, w)], 1),
        ([(x.tolist(), w)], 0), ([(x, w)] * 15, 1), ([(x, w)] * 16, 0),
        ([(numbers(1, 64, 12, 12), numbers(64, 64, 3, 3)), (x, w)], 1),  # rearranged
    ]:
        before = multiconv.convolution.kept
        with profile():
            due = multiconv.convolution(more)
        for _ in range(3):
            for y, one in zip(multiconv.convolution(more), due, strict=True):
                assert type(y) is type(one)
                assert_same_bits(y, one)
        assert multiconv.convolution.kept - before == kept, more


def test_kept_calls_refuse_outs_that_share_memory_too() -> None:
    x, w, room = numbers(1, 2, 5), numbers(3, 2, 2), np.empty(40, np.float32)

    def call(first: int, second: int, image: Any = x) -> list[Any]:
        outs = (room[begin:begin + 12].reshape(1, 3, 4) for begin in (first, second))
        return multiconv.convolution([(image, w, {"out": out}) for out in outs])

    before, due = multiconv.convolution.kept, poplin.convolution(x, w)
    for begin in (12, 20, 28):
        for y in call(0, begin):
            assert_same_bits(y, due)
    assert multiconv.convolution.kept == before + 1
    for wrong in (0, 8):
        with pytest.raises(InvalidArgumentError, match="share memory"):
            call(0, wrong)
    image = room[:10].reshape(1, 2, 5)
    image[...] = x
    for y in call(4, 20, image):  # which both read: as if neither lay over it
        assert_same_bits(y, due)
    image[...] = x
    (y,) = multiconv.convolution([(image, w, {"out": room[4:16].reshape(1, 3, 4)})])  # its own: as if it did not
    assert_same_bits(y, due)
    room.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="read-only"):
        call(0, 12)


def test_a_list_that_loses_its_arrays_while_it_is_read() -> None:
    """What garbage does when it is collected: the arrays of a call stay until it has run."""
    x, w = numbers(1, 32, 40, 40), numbers(32, 32, 3, 3)
    calls = [(x, w), (x.copy(), w)]
    for _ in range(2):
        due = multiconv.convolution(calls)
    done = []

    def lose() -> None:
        while not done:
            calls[1] = (x.copy(), w)

    other = threading.Thread(target=lose)
    other.start()
    for _ in range(20):
        for y, one in zip(multiconv.convolution(calls), due, strict=True):
            assert_same_bits(y, one)
    done.append(1)
    other.join()


X, W = np.ones((1, 2, 5), np.float32), np.ones((3, 2, 2), np.float32)
Y = np.ones((1, 3, 4), np.float32)
BAD: list[tuple[Any, type[Exception], str]] = [
    (3, InvalidTypeError, r"^calls: got 3; allowed: a list of \(x, weights\)"),
    ([X], InvalidTypeError, r"^calls\[0\]: got .*; allowed: \(x, weights\) or"),
    ([(X, W, 3)], InvalidTypeError, r"^calls\[0\]: got 3; allowed: a mapping"),
    ([(X, W), (X, W, {"target": "gc200"})], InvalidTypeError, r"^calls\[1\]: got unknown keyword 'target'; allowed: "),
    ([(X, W), (X, W[:, :1])], InvalidArgumentError, r"^calls\[1\], x: got 2 channels"),
    ([(X, W, {"bias": X})], InvalidArgumentError, r"^calls\[0\], bias: got shape \(1, 2, 5\)"),
    ([(X, W, {"out": Y}), (X, W, {"out": Y})], InvalidArgumentError, r"^calls\[1\]: got an out that may share memory"),
]


@pytest.mark.parametrize(("calls", "message"), [
    ([(Y, W, X)], r"(?s)^calls\[0\]: got .*; allowed: \(deltas, weights, x, scale\) or"),
    ([(Y, W, X, 1), (Y, W, X, 1)], r"^calls\[1\]: got an out that may share memory"),
    ([(Y, W, X, np.inf)], r"^calls\[0\], scale: got inf; allowed: a finite FP32 number"),
    ([(Y, None, X, 1)], r"^calls\[0\], weights: got None; allowed: an array"),
])
def test_bad_updates_are_refused_before_any_work(calls: Any, message: str) -> None:
    before = W.copy()
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=message):
        multiconv.convolution_weight_update(calls)
    assert_same_bits(W, before)


@pytest.mark.parametrize(("calls", "error", "message"), BAD)
def test_bad_calls_are_refused_before_any_work(calls: Any, error: type[Exception], message: str) -> None:
    before = Y.copy()
    with pytest.raises(error, match=message):
        multiconv.convolution(calls)
    assert_same_bits(Y, before)


def test_too_many_for_a_modelled_machine_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^calls: got 11 convolutions of 33 arrays; allowed: 31 arrays"):
        multiconv.convolution([(X, W)] * 11, target="gc200")


def test_what_is_said_of_all_calls_is_wrong_in_none_of_them() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^target: got gc20; allowed: a Target"):
        multiconv.convolution([(X, W)], target="gc20")  # type: ignore[arg-type]


def test_options_of_several_are_checked_on_every_machine() -> None:
    with pytest.raises(InvalidTypeError, match=r"^multi_options: got 3; allowed: a mapping"):
        multiconv.convolution([(X, W)], multi_options=3)  # type: ignore[arg-type]


def test_the_plan_says_how_many_are_alike() -> None:
    with profile() as report:
        multiconv.convolution([(X, W), (X, W), (X, W, {"padding": 1})])
    decisions = report.runs[0].plan.explain().decisions
    sizes = (f"1 x 5 by 2 to {n}, 2 to 3 channels: float32 x float32 -> float32" for n in (4, 6))
    assert report.runs[0].what == "3 convolutions at once: 2 of {}; {}".format(*sizes)
    plain, padded = (f"convolution of 1 x 5 by 2 to {n}, 2 to 3 channels: float32 x float32 -> float32" for n in (4, 6))
    assert list(decisions) == [plain, padded, "kernels", "memory"]
    assert decisions[plain].endswith(" (2 of them)")
    assert not decisions[padded].endswith(" of them)")


def test_a_keyword_does_not_win_over_an_option_that_says_otherwise():
    how = {"available_memory_proportion": 0.3, "options": {"availableMemoryProportion": 0.5}}
    for target in ("host", "gc200"):
        with pytest.raises(InvalidArgumentError, match=r"availableMemoryProportion.*0\.[35]|0\.[35].*availableMemory"):
            multiconv.convolution([(X, W, how)], target=target)


def test_the_plan_that_keeps_least_to_its_limit_tells_for_all():
    x, w = np.ones((2, 8, 12, 12), np.float16), np.ones((16, 8, 3, 3), np.float16)
    for target in ("host", "gc200"):
        with profile() as report, pytest.warns(MemoryLimitWarning) as caught:
            multiconv.convolution([(x, w), (x, w, {"available_memory_proportion": 1e-5}),
                                   (x[:, :, :6], w, {"available_memory_proportion": 1e-5})], target=target)
        [run] = report.runs
        misfits = [plan.temporaries for plan in run.plan.plans if not plan.fits]
        assert len(misfits) == len(caught) == 2
        assert run.plan.temporaries in misfits
        assert run.plan.temporaries.needed == max(one.needed for one in misfits)


@pytest.mark.parametrize("plan_type", ["parallel", "serial"])
def test_no_cache_of_several_plans_swallows_a_warning(plan_type):
    convs = [ConvParams.create(field=[n, n], kernel=[3, 3], in_channels=8, out_channels=8) for n in (12, 16)]
    cache = PlanCache()
    for given in (cache, cache, None):
        with pytest.warns(MemoryLimitWarning) as caught:
            made = plan_convolutions(convs, options={"availableMemoryProportion": 1e-5}, cache=given,
                                     multi_options={"planType": plan_type})
        assert not made.fits
        assert len(caught) == 2
