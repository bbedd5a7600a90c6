"""Gradients of weights from windows of the images: exact data bit for bit, in any boxes, on any thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, F143, FP16, FP32, format_of
from poplibs_py.kernels import available_levels
from poplibs_py.memo import forget
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv import window
from poplibs_py.poplin.conv.window import WindowPlan
from poplibs_py.target import Target

from .few_passes import guarded, laid, lowered, reference, shapes
from .test_by_taps import layer

LEAST = {"_POSITIONS": 2, "_DEPTH": 1, "_DEPTH_ACROSS": 1, "_ROWS_ACROSS": 1, "_RUN": 0, "_FEWEST_ROWS": 1,
         "_FEWEST_COLUMNS": 1, "_SHORTEST_STEP": 1}


@pytest.fixture
def small_ones(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gradients are planned so however small they are."""
    with monkeypatch.context() as patched:
        for name, value in LEAST.items():
            patched.setattr(window, name, value)
        forget()
        yield
    forget()


@st.composite
def layers(draw: st.DrawFn) -> ConvParams:
    ndim = draw(st.integers(1, 3))

    def each(least: int, most: int) -> list[int]:
        return [draw(st.integers(least, most)) for _ in range(ndim)]

    kernels, dilations, strides = each(1, 3), each(1, 2), each(1, 2)
    fields = [(k - 1) * d + s * k + draw(st.integers(0, 6))
              for k, d, s in zip(kernels, dilations, strides, strict=True)]
    return layer(fields, kernels, each(0, 3), strides, dilations,
                 draw(st.sampled_from([(2, 3), (16, 5), (1, 70), (17, 33), (40, 18)])), draw(st.integers(1, 3)),
                 draw(st.sampled_from([1, 1, 2])))


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.usefixtures("small_ones")
@given(p=layers(), fmt=st.sampled_from([FP32, BF16, FP16, F143]), out=st.sampled_from([FP32, BF16]),
       order=st.sampled_from(["last", "first"]), share=st.sampled_from([None, 0.004, 0.02]),
       threads=st.sampled_from([1, 3]), seed=st.integers(0, 99))
@example(layer([30, 30], [7, 7], [3, 3], [2, 2], [1, 1], (3, 64), 2), BF16, FP32, "last", None, 1, 0)
@example(layer([9, 15], [3, 3], [2, 2], [1, 1], [1, 1], (64, 64), 2), BF16, FP32, "last", 0.02, 3, 0)
@example(layer([4, 9, 7], [3, 3, 3], [2, 2, 2], [1, 1, 1], [1, 1, 1], (24, 40), 2), FP32, FP32, "first", None, 3, 0)
@example(layer([50], [5], [0], [5], [1], (1, 96), 2), FP32, BF16, "last", None, 1, 0)
@example(layer([12, 70], [3, 3], [1, 1], [1, 1], [1, 1], (40, 50), 2), BF16, BF16, "last", 0.02, 3, 0)
@example(layer([9, 20], [3, 3], [1, 1], [2, 2], [1, 1], (33, 70), 3), F143, FP32, "last", None, 1, 0)
def test_whole_numbers_give_the_exact_sums_to_the_bit(p, fmt, out, order, share, threads, seed):
    assume(0 not in p.output_shape)
    rng = np.random.default_rng(seed)
    held = {name: rng.integers(-1, 2, shape).astype(float) for name, shape in shapes(p).items()}
    x, y = (laid(held[name], order, fmt.dtype) for name in "xy")
    w = laid(np.full(shapes(p)["w"], 77.0), order, out.dtype)
    made = lowered(p, "weight gradient", x, y, w, threads=threads, available_memory_proportion=share)
    guarded(made, x, y, w)
    wanted = reference(p, "weight gradient", held["x"], held["y"])
    assert np.array_equal(w.astype(float), wanted.astype(out.dtype).astype(float))


def plan_of(p: ConvParams) -> Any:
    x, y, w = (laid(np.zeros(shapes(p)[name]), "last", np.float32) for name in "xyw")
    return lowered(p, "weight gradient", x, y, w, threads=1).plan


@pytest.mark.parametrize("width", [38, 63])  # of which deltas have 39, and 64
@pytest.mark.parametrize("channels", [(3, 64), (64, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_boxes_and_threads_do_not_change_the_sums(channels, dtype, width):
    """The same bits within any limit, and on any number of threads."""
    p = layer([23, width], [3, 3], [2, 2], [1, 1], [1, 1], channels, 2)
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(shapes(p)[name]).astype(format_of(dtype).dtype) for name in "xy")
    found = []
    for threads, share in ((1, None), (3, None), (1, 0.3), (2, 0.12)):
        w = np.empty(shapes(p)["w"], np.float32)
        a, b, c = (laid(array, "last", array.dtype) for array in (x, y, w))
        made = lowered(p, "weight gradient", a, b, c, threads=threads, available_memory_proportion=share)
        if not isinstance(made.plan.products[0], WindowPlan):
            continue
        made.executable(a, b, c)
        found.append(c.copy())
    tiles = any(level.startswith("amx") for level in available_levels())
    if not found and tiles and (dtype == "float16" or (dtype == "bfloat16" and width == 38)):
        pytest.skip("tiles take no numbers of two parts, and pairs of deltas alone")
    assert len(found) > 1
    assert all(np.array_equal(found[0], other) for other in found)


def test_what_runs_so_says_so():
    p = layer([28, 28], [3, 3], [2, 2], [1, 1], [1, 1], (64, 64), 2)
    plan = plan_of(p)
    assert isinstance(plan.products[0], WindowPlan)
    assert "windows of the images" in str(plan.explain())
    assert plan.temporary_bytes <= plan.threads * Target.host(1).bytes_per_tile


@pytest.mark.parametrize("p", [
    layer([28, 28], [1, 1], [0, 0], [1, 1], [1, 1], (64, 64), 2),  # one kernel element: nothing is packed twice
    layer([7, 7], [3, 3], [2, 2], [1, 1], [1, 1], (64, 64), 1),  # sums are as many as deltas
    layer([28, 28], [3, 3], [2, 2], [1, 1], [1, 1], (4, 4), 2, groups=16),  # few channels side by side do better
])
def test_others_do_not(p):
    assert not isinstance(plan_of(p).products[0], WindowPlan)
