"""Fields that products read tap by tap, as they lie or decoded: exact data bit for bit, where padding is left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.formats import BF16, F143, FP16, FP32
from poplibs_py.memo import forget
from poplibs_py.poplin.conv import search as plans
from poplibs_py.poplin.gemm import search
from poplibs_py.poplin.tile_conv import ConvParams, FieldTransform, OutputTransform

from .few_passes import OPERANDS, PASSES, guarded, laid, lowered, reference, shapes

FORMATS = st.sampled_from([FP32, BF16, FP16, F143])


@pytest.fixture(scope="module", autouse=True)
def _short_runs():
    """Products are planned so for runs of any length, with few channels too."""
    kept = search._LONG_RUN, plans.plan_few, plans.plan_overlap
    search._LONG_RUN = 1
    plans.plan_few, plans.plan_overlap = lambda *_: None, lambda *_: "channels are taken as many"
    forget()
    yield
    search._LONG_RUN, plans.plan_few, plans.plan_overlap = kept
    forget()


def layer(fields, kernels, pads, strides, dilations, channels=(2, 3), batch=1, groups=1) -> ConvParams:
    return ConvParams.create(
        batch=batch, field=fields, kernel=kernels, in_channels=channels[0], out_channels=channels[1], groups=groups,
        input_transform=[FieldTransform(padding_lower=p, padding_upper=p // 2) for p in pads],
        kernel_transform=[FieldTransform(dilation=d) for d in dilations],
        output_transform=[OutputTransform(stride=s) for s in strides],
    )


@st.composite
def layers(draw: st.DrawFn) -> ConvParams:
    ndim = draw(st.integers(1, 3))

    def each(least: int, most: int) -> list[int]:
        return [draw(st.integers(least, most)) for _ in range(ndim)]

    kernels, dilations = each(1, 3), each(1, 2)
    fields = [draw(st.integers((k - 1) * d + 1, 11)) for k, d in zip(kernels, dilations, strict=True)]
    fields[-1] = draw(st.integers(11, 21))
    channels = draw(st.sampled_from([(2, 3), (4, 1), (6, 70), (32, 64)]))
    return layer(fields, kernels, each(0, 3), each(1, 2), dilations, channels,
                 draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2])))


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@given(p=layers(), which=st.sampled_from(PASSES[:2]), fmt=FORMATS, out=FORMATS,
       share=st.sampled_from([None, 0.002, 0.02]), threads=st.sampled_from([1, 3]), seed=st.integers(0, 99))
@example(layer([7, 7], [3, 3], [1, 1], [1, 1], [1, 1], (64, 9), 3), "forward", FP32, FP32, None, 1, 0)
@example(layer([14, 13], [3, 3], [1, 1], [1, 1], [1, 1], (4, 70), 2), "input gradient", BF16, BF16, 0.02, 3, 0)
@example(layer([9, 40], [5, 3], [4, 2], [1, 1], [2, 1], (6, 3)), "forward", BF16, FP32, None, 1, 0)
@example(layer([4, 5, 30], [3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], (4, 3), 2), "forward", FP32, BF16, 0.002, 1, 0)
@example(layer([30], [3], [3], [2], [3], (4, 3), 2), "forward", FP32, FP32, None, 1, 0)
@example(layer([6, 12, 28], [3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], (64, 64), 2), "forward", FP16, FP16, None, 1, 0)
@example(layer([14, 30], [3, 3], [2, 2], [1, 2], [1, 1], (64, 70), 3), "forward", FP16, FP32, 0.02, 3, 0)
@example(layer([400], [5], [2], [1], [2], (128, 16), 2), "forward", F143, BF16, None, 1, 0)
@example(layer([7, 7], [3, 3], [1, 1], [1, 1], [1, 1], (64, 40), 5), "forward", BF16, BF16, None, 1, 0)
@example(layer([15, 19], [3, 3], [1, 1], [2, 2], [1, 1], (32, 33), 2), "forward", FP16, FP16, None, 3, 0)
@example(layer([6, 14, 12], [3, 3, 2], [1, 1, 0], [1, 1, 1], [1, 2, 1], (32, 16), 2), "forward", BF16, FP32, 0.02, 1, 0)
@example(layer([60, 70], [3, 3], [1, 1], [1, 1], [1, 1], (64, 64), 2), "input gradient", F143, F143, None, 2, 0)
def test_whole_numbers_give_the_exact_sums_to_the_bit(p, which, fmt, out, share, threads, seed):
    assume(0 not in p.output_shape)
    rng = np.random.default_rng(seed)
    held = {name: rng.integers(-1, 2, shape).astype(float) for name, shape in shapes(p).items()}
    names = OPERANDS[which]
    a, b = (laid(held[name], "last", fmt.dtype) for name in names[:2])
    y = laid(np.full(shapes(p)[names[2]], 77.0), "last", out.dtype)
    made = lowered(p, which, a, b, y, threads=threads, available_memory_proportion=share)
    guarded(made, a, b, y)
    wanted = reference(p, which, held[names[0]], held[names[1]])
    assert np.array_equal(y.astype(float), wanted.astype(out.dtype).astype(float))


def test_no_images_give_no_results():
    x, w = np.zeros((0, 100, 64), BF16.dtype), np.ones((3, 64, 16), BF16.dtype)
    assert poplin.convolution(x, w, padding=1, layout="NHWC").shape == (0, 100, 16)


def test_neighbours_of_padding_and_infinite_elements_stay_apart():
    """Padding is left out, and positions meet their own elements alone."""
    x, w = np.zeros((1, 6, 9, 4), np.float32), np.ones((3, 3, 4, 8), np.float32)
    x[0, 0, 0], x[0, 5, 8] = np.inf, np.nan
    y = poplin.convolution(x, w, padding=1, layout="NHWC")
    rows, columns = np.indices((6, 9))
    met = [(abs(rows - r) <= 1) & (abs(columns - c) <= 1) for r, c in ((0, 0), (5, 8))]
    assert (np.isinf(y).all(-1) == met[0]).all()
    assert (np.isnan(y).all(-1) == met[1]).all()


@pytest.mark.parametrize(("dtype", "words"), [("float32", "read where they lie"), ("float16", "decoded once for all")])
def test_what_reads_so_says_so(dtype, words):
    p = layer([14, 14], [3, 3], [1, 1], [1, 1], [1, 1], (64, 64))
    plan = poplin.plan_convolution(p, target="host", layout="NHWC", dtype=dtype)
    assert all(product.by_taps or product.fallback for product in plan.dense)
    assert f"images {words}" in str(plan.explain())
    assert plan.temporary_bytes < 1 << 20


@pytest.mark.parametrize("which", PASSES[:2])
@pytest.mark.parametrize("fmt", [FP32, BF16], ids=str)
def test_weights_are_packed_for_many_elements_of_a_long_line(which, fmt):
    p, names = layer([3000], [3], [1], [1], [1], (80, 384)), OPERANDS[which]
    a, b, out = (laid(np.zeros(shapes(p)[name]), "last", fmt.dtype) for name in names)
    (product,) = lowered(p, which, a, b, out).plan.dense
    if product.compute_format != fmt or product.kernel.level.startswith("amx"):
        pytest.skip("numbers are decoded first, or 80 channels fill no steps of tiles")
    assert product.by_taps
    assert product.mc >= 256


@pytest.mark.parametrize(("taps", "share", "packs"), [(1, None, True), (3, None, False), (1, 1e-5, False)])
def test_rows_that_no_two_taps_meet_are_packed_where_calls_are_short(taps, share, packs):
    p = layer([19, 19], [taps, taps], [taps - 1, taps - 1], [2, 2], [1, 1], (128, 32), 2)
    x, w, y = (laid(np.zeros(shapes(p)[name]), "last", np.float32) for name in OPERANDS["forward"])
    (plan,) = lowered(p, "forward", x, w, y, available_memory_proportion=share).plan.dense
    short = plan.kernel.block[0] * plan.kernel.block[1] <= search._FEW_SUMS
    assert plan.by_taps != (packs and short)
