"""Phases of a dilated input as columns of one product: exact data bit for bit, and which convolutions run so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, F143, FP32
from poplibs_py.poplin.conv.columns import phases_as_columns
from poplibs_py.poplin.gemm.model import matrix_unit
from poplibs_py.poplin.gemm.options import GemmOptions
from poplibs_py.poplin.gemm.plan import Epilogue
from poplibs_py.poplin.gemm.search import plan_gemm
from poplibs_py.poplin.tile_conv import ConvParams
from poplibs_py.target import Target

from .few_passes import OPERANDS, guarded, laid, lowered, reference, shapes
from .test_by_taps import layer

only_tiles = pytest.mark.skipif(matrix_unit() is None, reason="no matrix unit")


@st.composite
def layers(draw: st.DrawFn) -> ConvParams:
    ndim = draw(st.integers(1, 2))
    strides = [draw(st.integers(1, 3)) for _ in range(ndim)]
    kernels_ = [draw(st.integers(s, s + 4)) for s in strides]
    fields = [s * draw(st.integers(k // s + 1, 9)) for k, s in zip(kernels_, strides, strict=True)]
    pads = [draw(st.integers(0, k - 1)) for k in kernels_]
    channels = draw(st.integers(1, 5)), draw(st.sampled_from([32, 64]))
    return layer(fields, kernels_, pads, strides, [1] * ndim, channels,
                 draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2])))


@only_tiles
@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@given(p=layers(), fmt=st.sampled_from([BF16, F143]), out=st.sampled_from([FP32, BF16, F143]),
       share=st.sampled_from([None, 0.02]), threads=st.sampled_from([1, 3]), seed=st.integers(0, 99))
@example(layer([32, 44], [7, 7], [3, 3], [2, 2], [1, 1], (3, 64), 2), BF16, BF16, None, 1, 0)
@example(layer([30, 30], [5, 5], [2, 2], [3, 3], [1, 1], (3, 32), 1), BF16, FP32, None, 3, 0)
@example(layer([60], [4], [1], [4], [1], (5, 32), 3), F143, F143, None, 1, 0)
def test_whole_numbers_give_the_exact_sums_to_the_bit(p, fmt, out, share, threads, seed):
    assume(0 not in p.output_shape)
    rng = np.random.default_rng(seed)
    held = {name: rng.integers(-1, 2, shape).astype(float) for name, shape in shapes(p).items()}
    deltas, w, made = OPERANDS["input gradient"]
    a, b = (laid(held[name], "last", fmt.dtype) for name in (deltas, w))
    x = laid(np.full(shapes(p)[made], 77.0), "last", out.dtype)
    one = lowered(p, "input gradient", a, b, x, threads=threads, available_memory_proportion=share)
    guarded(one, a, b, x)
    wanted = reference(p, "input gradient", held[deltas], held[w])
    assert np.array_equal(x.astype(float), wanted.astype(out.dtype).astype(float))


def gradient(p: ConvParams, order: str = "last"):
    a, b, x = (laid(np.zeros(shapes(p)[name]), order, BF16.dtype) for name in OPERANDS["input gradient"])
    return lowered(p, "input gradient", a, b, x).plan


FIRST = layer([32, 32], [7, 7], [3, 3], [2, 2], [1, 1], (3, 64), 2)


@only_tiles
def test_the_gradient_of_a_first_layer_runs_so():
    plan = gradient(FIRST)
    assert dict(plan.tried)["phases as columns"] == ""
    (product,) = plan.dense
    assert (product.params.n, product.params.k, product.params.out.parts) == (12, 4 * 4 * 64, (6, 2 * 3 * 32))


@only_tiles
@pytest.mark.parametrize(("p", "why"), [
    (layer([32, 32], [7, 7], [3, 3], [1, 1], [1, 1], (3, 64)), "no dimension's phases are alike"),
    (layer([33, 32], [7, 7], [3, 3], [2, 2], [1, 1], (3, 64)), "no dimension's phases are alike"),
    (layer([32, 32], [7, 7], [3, 3], [2, 2], [1, 1], (16, 64)), "64 columns are not few"),
    (layer([32, 32], [7, 7], [3, 3], [2, 2], [1, 1], (3, 48)), "what rows meet is in no window"),
])
def test_others_do_not_and_say_why(p, why):
    assert dict(gradient(p).tried)["phases as columns"] == why


def test_the_product_is_one_of_matrices_at_every_level():
    """What is asked of a matrix unit is a product that others could make: its rows, columns and depth."""
    a, b, x = (laid(np.zeros(shapes(FIRST)[name]), "last", np.float32) for name in OPERANDS["input gradient"])
    call = lowered(FIRST, "input gradient", a, b, x).plan.call
    params = phases_as_columns(call, 32)
    assert not isinstance(params, str)
    assert (params.m, params.n, params.k) == (2 * 16 * 16, 12, 1024)
    plan = plan_gemm(replace(params, out=replace(params.out, parts=(0, 0))), GemmOptions(), Epilogue(), Target.host(1))
    assert not plan.even
    assert phases_as_columns(call, 11) == "12 columns are not few"
