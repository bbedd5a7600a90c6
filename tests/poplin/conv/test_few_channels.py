"""Convolutions with few channels in a group: exact data bit for bit, bounds, levels, threads, limits on memory."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden.families import Arrays, parameters
from hypothesis import assume, example, given
from hypothesis import strategies as st
from limits import of_a_mebibyte

from poplibs_py import poplin
from poplibs_py.errors import InvalidArgumentError, MemoryLimitError
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32
from poplibs_py.kernels import available_levels
from poplibs_py.poplin.conv import few
from poplibs_py.poplin.conv._conv import SPEC
from poplibs_py.poplin.conv.few import LANES, Dots, FewPlan, OverTaps, Tile
from poplibs_py.poplin.conv.lower import lower
from poplibs_py.poplin.conv.params import ConvCall
from poplibs_py.poplin.conv.search import plan_call
from poplibs_py.poplin.conv.ways import Phases
from poplibs_py.poplin.gemm.options import GemmOptions
from poplibs_py.poplin.gemm.plan import Epilogue
from poplibs_py.poplin.gemm.search import on_units
from poplibs_py.poplin.tile_conv import Axis, ConvParams, FieldTransform, OutputTransform
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.target import Target
from poplibs_py.testing import as_format, assert_same_bits

from .few_passes import OPERANDS, PASSES, guarded, images, kernels, laid, lowered, reference, shapes

FORMATS = (FP32, FP16, BF16, F143)
LAYOUTS = ("first", "last", "gap")


def params(ci, co, groups, field, kernel, stride=1, pad=0, batch=2, ndim=2, dilation=1) -> ConvParams:
    """A layer's params, the same in every dimension."""
    return ConvParams.create(
        batch=batch, field=[field] * ndim, kernel=[kernel] * ndim, in_channels=ci, out_channels=co, groups=groups,
        input_transform=[FieldTransform(padding_lower=pad, padding_upper=pad)] * ndim,
        kernel_transform=[FieldTransform(dilation=dilation)] * ndim,
        output_transform=[OutputTransform(stride=stride)] * ndim,
    )


@st.composite
def transforms(draw: st.DrawFn, size: int) -> FieldTransform:
    lower = draw(st.integers(0, min(size, 2)))
    upper = draw(st.integers(0, min(size - lower, 2)))
    pads = [draw(st.integers(0, 2)) for _ in range(2)]
    return FieldTransform(lower, upper, draw(st.integers(1, 3)), *pads, draw(st.booleans()))


@st.composite
def any_axes(draw: st.DrawFn) -> Axis:
    field, kernel = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    plain = draw(st.booleans())
    axis = Axis(field, kernel, *(FieldTransform() if plain else draw(transforms(n)) for n in (field, kernel)))
    assume(axis.transformed_kernel >= 1)
    assume(axis.transformed_input >= axis.transformed_kernel)
    lower = draw(st.integers(0, min(axis.raw_output, 2)))
    upper = draw(st.integers(0, min(axis.raw_output - lower, 2)))
    pads = draw(st.sampled_from([(0, 0), (1, 2)]))
    return axis._replace(output=OutputTransform(lower, upper, draw(st.integers(1, 3)), *pads))


@st.composite
def grouped(draw: st.DrawFn) -> ConvParams:
    """Any transforms, 1 to 40 groups, 1 to 16 channels in and 32 out."""
    found = draw(st.lists(any_axes(), min_size=1, max_size=3))
    channels = st.sampled_from([1, 1, 1, 2, 3, 4, 5, 8, 16])
    try:
        return ConvParams.create(
            batch=draw(st.integers(1, 3)), field=[a.field for a in found], kernel=[a.kernel for a in found],
            in_channels=draw(channels), out_channels=draw(channels | st.sampled_from([20, 32])),
            groups=draw(st.sampled_from([1, 2, 3, 8, 16, 17, 40])),
            input_transform=[a.input for a in found], kernel_transform=[a.weights for a in found],
            output_transform=[a.output for a in found],
        )
    except InvalidArgumentError:
        assume(False)
        raise


def longest_sum(p: ConvParams) -> int:
    """Products that a sum of any pass has, at most."""
    taps, positions = math.prod(p.kernel_shape), math.prod(p.output_shape)
    return max(p.in_channels * taps, p.out_channels * taps, p.batch * positions)


def whole_numbers(p: ConvParams, seed: int) -> dict[str, np.ndarray]:
    """Operands of all passes, whole numbers so small that FP16 holds every sum, whatever its order."""
    rng = np.random.default_rng(seed)
    largest = 3 if 9 * longest_sum(p) <= 256 else 1
    return {name: rng.integers(-largest, largest + 1, shape).astype(float) for name, shape in shapes(p).items()}


@given(p=grouped(), which=st.sampled_from(PASSES), formats=st.tuples(*[st.sampled_from(FORMATS)] * 2),
       layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 3), seed=st.integers(0, 99), threads=st.sampled_from([1, 3]))
@example(params(1, 1, 48, 20, 3, 1, 1), "forward", (FP32, FP32), ("last",) * 3, 0, 1)  # read where it lies
@example(params(1, 1, 48, 20, 3, 1, 1), "weight gradient", (FP32, FP32), ("last",) * 3, 0, 1)
@example(params(1, 1, 32, 15, 5, 2, 2), "forward", (BF16, FP32), ("last",) * 3, 0, 3)
@example(params(1, 1, 32, 15, 3, 2, 1), "input gradient", (FP16, FP16), ("last",) * 3, 0, 1)
@example(params(1, 1, 20, 12, 3, 2, 1, dilation=2), "forward", (BF16, BF16), ("first",) * 3, 0, 1)
@example(params(1, 1, 16, 9, 3, 1, 1, ndim=3), "forward", (BF16, BF16), ("last",) * 3, 0, 1)
@example(params(1, 1, 32, 40, 7, 1, 3, ndim=1), "weight gradient", (FP16, BF16), ("last", "first", "gap"), 0, 1)
@example(params(4, 4, 8, 9, 3, 2, 1), "input gradient", (FP16, FP16), ("last",) * 3, 0, 1)
@example(params(8, 8, 3, 9, 3, 1, 1), "forward", (BF16, F143), ("last",) * 3, 0, 1)
@example(params(1, 1, 32, 21, 3, 2, 1), "weight gradient", (BF16, BF16), ("last",) * 3, 0, 3)  # tiles of deltas
@example(params(1, 1, 40, 9, 4, 1, 1, ndim=3), "weight gradient", (FP16, FP16), ("last",) * 3, 0, 1)
@example(params(1, 1, 48, 17, 5, 1, 2, dilation=2), "weight gradient", (F143, BF16), ("last",) * 3, 0, 1)
@example(params(1, 1, 16, 90, 31, 1, 15, ndim=1), "weight gradient", (BF16, BF16), ("last",) * 3, 0, 1)
@example(params(2, 16, 4, 9, 3, 1, 1), "weight gradient", (FP32, FP32), ("last",) * 3, 0, 1)
@example(params(4, 32, 3, 9, 3, 1, 1), "forward", (FP32, FP32), ("last",) * 3, 0, 1)
@example(params(3, 32, 1, 15, 7, 2, 3), "forward", (FP32, FP32), ("last",) * 3, 0, 1)
@example(params(1, 1, 16, 23, 7, 1, 3), "forward", (FP16, FP16), ("last",) * 3, 0, 1)
@example(params(3, 32, 1, 15, 3, 1, 1), "forward", (FP32, FP32), ("first",) * 3, 0, 1)  # taps in one run
@example(params(3, 32, 1, 15, 7, 2, 3), "weight gradient", (FP16, FP32), ("first",) * 3, 0, 1)
@example(params(4, 24, 3, 9, 3, 1, 1), "weight gradient", (FP32, FP32), ("last",) * 3, 0, 1)
@example(params(1, 1, 16, 5, 2, ndim=4, batch=1), "forward", (FP32, FP32), ("first",) * 3, 0, 1)
@example(params(8, 8, 3, 8, 3, 1, 1), "weight gradient", (BF16, BF16), ("last",) * 3, 0, 1)  # pairs of neighbours
@example(params(4, 6, 5, 16, 3, 2, 1), "weight gradient", (BF16, BF16), ("first",) * 3, 0, 1)
@example(params(4, 4, 5, 8, 3, 1, 1), "weight gradient", (F143, BF16), ("last",) * 3, 0, 1)
@example(params(1, 1, 48, 11, 5, 1, 2), "forward", (BF16, BF16), ("last",) * 3, 0, 1)  # pairs of rows
@example(params(1, 1, 32, 8, 3, 2, 1, ndim=3), "input gradient", (BF16, F143), ("last",) * 3, 0, 1)
@example(params(1, 1, 40, 11, 3, 1, 1), "forward", (F143, F143), ("last",) * 3, 0, 1)  # decoded to BF16
@example(params(1, 1, 40, 11, 3, 1, 1), "forward", (BF16, BF16), ("last",) * 3, 0, 3)
@example(params(6, 8, 3, 9, 3, 1, 1), "forward", (F143, BF16), ("last",) * 3, 0, 1)
@example(params(3, 64, 1, 20, 7, 2, 3), "input gradient", (FP32, FP32), ("last",) * 3, 0, 1)  # lanes of input channels
@example(params(3, 64, 1, 21, 7, 2, 3), "input gradient", (BF16, BF16), ("last", "first", "gap"), 0, 3)
@example(params(1, 32, 3, 11, 5, 2, 2), "input gradient", (FP16, F143), ("last",) * 3, 0, 1)
@example(params(4, 32, 2, 7, 3, 1, 1, ndim=3), "input gradient", (F143, F143), ("last",) * 3, 0, 1)
@example(params(2, 48, 1, 60, 31, 3, 4, ndim=1), "input gradient", (FP32, BF16), ("last",) * 3, 0, 3)
@example(params(96, 4, 1, 9, 3, 1, 1, dilation=2), "forward", (FP32, FP32), ("last",) * 3, 0, 1)
def test_whole_numbers_give_the_exact_sums_to_the_bit(p, which, formats, layouts, seed, threads):
    held, names = whole_numbers(p, seed), OPERANDS[which]
    a, b = (laid(held[name], layout, f.dtype) for name, layout, f in zip(names, layouts, formats, strict=False))
    out = laid(np.full(shapes(p)[names[2]], 77.0), layouts[2], np.float32, spare=77)
    before = out.base.copy() if out.base is not None else None
    made = lowered(p, which, a, b, out, threads=threads)
    guarded(made, a, b, out)
    assert np.array_equal(out, reference(p, which, held[names[0]], held[names[1]]))
    if layouts[2] == "gap":
        assert before is not None
        assert np.array_equal(out.base[..., 1::2], before[..., 1::2])


@pytest.mark.parametrize("which", PASSES)
@pytest.mark.parametrize(("shape", "layout", "fmt"), [
    ((1, 1, 48, 14, 3, 1, 1), "last", FP32), ((1, 1, 32, 14, 5, 2, 2), "first", FP32),
    ((4, 4, 8, 9, 3, 1, 1), "last", FP16), ((8, 4, 5, 9, 3, 1, 1), "first", BF16),
    ((16, 16, 2, 9, 3, 1, 1), "last", FP32), ((3, 5, 4, 8, 3, 1, 1), "gap", F143),
    ((16, 16, 2, 8, 3, 1, 1), "last", BF16), ((1, 1, 32, 17, 3, 1, 1), "last", BF16),
    ((3, 64, 1, 20, 7, 2, 3), "last", FP32), ((3, 64, 1, 20, 7, 2, 3), "last", BF16),
])  # fmt: skip
def test_results_are_within_the_bound_of_one_chain_of_sums(which, shape, layout, fmt):
    p, names = params(*shape), OPERANDS[which]
    rng = np.random.default_rng(1)
    a, b = (laid(rng.standard_normal(shapes(p)[name]).astype(fmt.dtype), layout, fmt.dtype) for name in names[:2])
    out = laid(np.zeros(shapes(p)[names[2]]), layout, np.float32)
    lowered(p, which, a, b, out).executable(a, b, out)
    x, w = (v.astype(float) for v in (a, b))
    unit = longest_sum(p) * 2.0**-24
    gamma = unit / (1 - unit)
    wrong = np.abs(out - reference(p, which, x, w)) > gamma * reference(p, which, x, w, absolute=True)
    assert not wrong.any()


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize(("shape", "layout", "fmt"), [
    ((1, 1, 48, 9, 3, 1, 1), "last", FP32), ((4, 4, 5, 9, 3, 1, 1), "first", FP16),
    ((3, 5, 4, 8, 3, 1, 1), "last", BF16), ((1, 1, 40, 9, 3, 1, 1), "last", FP16),
])  # fmt: skip
def test_bias_activation_alpha_and_beta_are_the_epilogue_s(shape, layout, fmt, activation):
    p = params(*shape)
    held = whole_numbers(p, 3)
    x, w = (laid(held[name], layout, np.float32) for name in "xw")
    old, bias = held["y"], np.random.default_rng(5).integers(-3, 4, (p.groups, p.out_channels)).astype(np.float32)
    out = laid(old, layout, fmt.dtype)
    made = lowered(p, "forward", x, w, out, bias, Epilogue(0.5, 2.0, activation))
    made.executable(x, w, out, bias)
    sums = reference(p, "forward", held["x"], held["w"])
    want = 0.5 * sums + 2.0 * old + bias.reshape(1, -1, *[1] * p.ndim)
    if activation == "relu":
        want = np.maximum(want, 0.0)
    if activation == "gelu":
        want = want * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (want + 0.044715 * want**3)))
        step = np.spacing(np.maximum(np.abs(want), 2.0**-14).astype(np.float32)) * 2.0 ** (23 - fmt.mantissa_bits)
        assert (np.abs(out.astype(float) - want) <= 2 * step).all()
        return
    assert_same_bits(out, as_format(want, fmt))


def test_a_scale_of_8_bit_images_is_exact():
    p = params(1, 1, 32, 8, 3, 1, 1)
    held = whole_numbers(p, 4)
    dtypes = {"x": F143.dtype, "w": np.float32, "y": np.float32}
    x, w, out = (laid(held[name], "last", dtype) for name, dtype in dtypes.items())
    call = ConvCall(p, replace(images(x, p.groups), scale=3), kernels(w), images(out, p.groups))
    lower(plan_call(call, GemmOptions(), Epilogue(), Target.host(1))).executable(x, w, out)
    assert np.array_equal(out, 8 * reference(p, "forward", held["x"], held["w"]))


@pytest.mark.parametrize("which", PASSES)
@pytest.mark.parametrize("shape", [(1, 1, 48, 11, 3, 1, 1), (1, 1, 32, 12, 3, 2, 1), (4, 4, 8, 9, 3, 1, 1),
                                   (16, 16, 2, 8, 3, 1, 1)])
@pytest.mark.parametrize("weights", ["first", "last", "gap"])  # decoded in one go, or not
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numbers_of_8_bits_give_the_bits_of_the_same_in_bf16(which, shape, weights, dtype):
    p, names, found = params(*shape), OPERANDS[which], []
    rng = np.random.default_rng(3)
    held = [rng.standard_normal(shapes(p)[name]).astype(F143.dtype) for name in names[:2]]
    for f in (F143, BF16):
        a, b = (laid(one, layout, f.dtype) for one, layout in zip(held, ("last", weights), strict=True))
        out = laid(np.zeros(shapes(p)[names[2]]), "last", dtype)
        lowered(p, which, a, b, out).executable(a, b, out)
        found.append(out)
    assert np.array_equal(*found)


@pytest.mark.parametrize("fmt", [F143, F152, E4M3, E5M2], ids=str)
@pytest.mark.parametrize("scale", [0, -5, 31])
def test_results_of_8_bits_are_rounded_once(fmt, scale):
    top = np.arange(1 << 16, dtype=np.uint32) << 16
    sums = np.concatenate([top, top | 1, top | 0x8000]).view(np.float32)
    sums = np.concatenate([sums, np.zeros(-len(sums) % 36, np.float32)]).reshape(1, -1, 4, 9).transpose(0, 3, 1, 2)
    sums[np.isnan(sums)], sums[sums == 0] = np.nan, 0  # sums begin with +0
    sums = laid(np.tile(sums, (1, 8, 1, 1)), "last", np.float32)  # 72 channels: 64, then a few
    p = ConvParams.create(batch=1, field=sums.shape[2:], kernel=[1, 1], in_channels=1, out_channels=1, groups=72)
    w, out = laid(np.ones((72, 1, 1, 1, 1)), "last", np.float32), laid(np.zeros(sums.shape), "last", fmt.dtype)
    call = ConvCall(p, images(sums, p.groups), kernels(w), replace(images(out, p.groups), scale=scale))
    lower(plan_call(call, GemmOptions(), Epilogue(), Target.host(1))).executable(sums, w, out)
    assert_same_bits(out, as_format(np.ldexp(sums.astype(float), -scale), fmt))


@pytest.mark.parametrize("which", PASSES[:2])
@pytest.mark.parametrize("shape", [(1, 1, 48, 20, 3, 1, 1), (1, 1, 16, 9, 3, 1, 1, 1, 3), (1, 1, 96, 17, 7, 1, 3)])
def test_results_that_pass_the_caches_are_the_same(shape, which, monkeypatch):
    p, names = params(*shape), OPERANDS[which]
    rng = np.random.default_rng(2)
    a, b = (laid(rng.standard_normal(shapes(p)[name]), "last", np.float32) for name in names[:2])
    found = set()
    for least in (1 << 40, 0):
        monkeypatch.setattr(few, "STREAM_BYTES", {"tiles": least})
        for start in (0, 4, 12):  # where a line of the cache begins is found out by each run
            size = shapes(p)[names[2]]
            room = np.full(4 * math.prod(size) + 128, 77, np.uint8)
            first = -room.ctypes.data % 64 + start
            held = room[first : first + 4 * math.prod(size)].view(np.float32)
            out = np.moveaxis(held.reshape(size[0], *size[2:], size[1]), -1, 1)
            made = lower.__wrapped__(lowered(p, which, a, b, out).plan)
            assert made.plan.products[0].streams == (least == 0)
            guarded(made, a, b, out)
            assert np.array_equal(room[:first], [77] * first)
            assert (room[first + held.nbytes :] == 77).all()
            found.add(held.tobytes())
    assert len(found) == 1


_PRINT_BITS = """
import hashlib, itertools
import numpy as np
from conv.few_passes import OPERANDS, PASSES, laid, lowered, shapes
from conv.test_few_channels import params
digest = hashlib.sha256()
for shape in ((1, 1, 40, 20, 3, 1, 1), (4, 4, 8, 9, 3, 1, 1), (8, 8, 4, 9, 3, 2, 1), (2, 2, 9, 9, 3, 1, 1),
              (16, 16, 2, 8, 3, 1, 1), (1, 1, 32, 20, 3, 1, 1), (3, 64, 1, 15, 7, 2, 3), (4, 32, 2, 9, 5, 1, 2)):
    p = params(*shape)
    rng = np.random.default_rng(0)
    held = {name: rng.standard_normal(shape) for name, shape in shapes(p).items()}
    for which, layout, dtype in itertools.product(PASSES, ("first", "last"), ("float32", "float16")):
        names = OPERANDS[which]
        a, b, out = (laid(held[name], layout, dtype) for name in names)
        lowered(p, which, a, b, out).executable(a, b, out)
        digest.update(np.ascontiguousarray(out).tobytes())
print(digest.hexdigest())
"""


def test_bits_do_not_depend_on_the_level():
    found = set()
    for level in sorted({"portable", "avx2", "avx512"} & {*available_levels()}):
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        env = {**os.environ, "POPLIBS_MAX_ISA": level, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", _PRINT_BITS], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize(("which", "shape"), [
    *itertools.product(PASSES, [(1, 1, 96, 28, 3, 1, 1, 8), (4, 4, 24, 28, 3, 1, 1, 4)]),
    ("input gradient", (3, 64, 1, 56, 7, 2, 3, 4)),
    ("input gradient", (1, 1, 64, 56, 3, 2, 1)), ("forward", (4, 4, 32, 28, 3, 1, 1)),
])  # fmt: skip
def test_bits_do_not_depend_on_threads(which, shape):
    p, names = params(*shape), OPERANDS[which]
    rng = np.random.default_rng(0)
    a, b, out = (laid(rng.standard_normal(shapes(p)[name]), "last", np.float32) for name in names)
    found = set()
    for threads in (1, 2, 3, 5):
        out[...] = 0
        made = lowered(p, which, a, b, out, threads=threads)
        assert made.plan.threads == threads or threads == 5
        made.executable(a, b, out)
        found.add(out.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("layout", ["first", "last"])
def test_planes_of_a_volume_leave_out_the_taps_that_miss_it(layout):
    p, rng = params(3, 16, 1, 6, 3, pad=1, ndim=3), np.random.default_rng(0)
    held = {name: rng.integers(-8, 9, shape).astype(np.float32) for name, shape in shapes(p).items()}
    held["w"][..., 0, :, :] = 0
    exact = reference(p, "forward", held["x"], held["w"])
    held["w"][..., 0, :, :] = np.inf  # which the first plane does not meet
    a, b, out = (laid(held[name], layout, np.float32) for name in "xwy")
    made = lowered(p, "forward", a, b, out)
    (plan,) = made.plan.way.products
    assert sorted({box.count[0] for box in plan.boxes if box.first[0] in (0, 5)}) == [1]
    made.executable(a, b, out)
    np.testing.assert_array_equal(out[:, :, 0], exact[:, :, 0])
    assert not np.isfinite(out[:, :, 1:]).any()


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2, 0.9])
@pytest.mark.parametrize("which", PASSES)
@pytest.mark.parametrize(("shape", "dtype"), [
    ((1, 1, 96, 56, 3, 1, 1), np.float16), ((8, 8, 8, 28, 3, 1, 1), np.float32),
])  # fmt: skip
def test_scratch_keeps_to_the_limit(which, shape, dtype, share):
    share = of_a_mebibyte(share)
    p, names = params(*shape), OPERANDS[which]
    held = whole_numbers(p, 0)
    a, b = (laid(held[name], "last", dtype) for name in names[:2])
    out = laid(np.zeros(shapes(p)[names[2]]), "last", np.float32)
    made = lowered(p, which, a, b, out, available_memory_proportion=share)
    assert isinstance(made.plan.products[0], FewPlan)
    before = memory_in_use()
    memory_peak(reset=True)
    guarded(made, a, b, out)
    assert memory_peak() - before <= share * Target.host(1).bytes_per_tile
    assert np.array_equal(out, reference(p, which, held[names[0]], held[names[1]]))


@pytest.mark.parametrize("channels", [16, 32, 64])
@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=str)
def test_lanes_are_input_channels_of_any_number(fmt, channels):
    p, names = params(2, channels, 2, 9, 4, 1, 3), OPERANDS["input gradient"]
    held = whole_numbers(p, 0)
    a, b = (laid(held[name], "last", fmt.dtype) for name in names[:2])
    out = laid(np.zeros(shapes(p)[names[2]]), "last", np.float32)
    made = lowered(p, "input gradient", a, b, out)
    guarded(made, a, b, out)
    assert np.array_equal(out, reference(p, "input gradient", held[names[0]], held[names[1]]))


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("fmt", [FP32, FP16], ids=str)
def test_scratch_of_lanes_of_input_channels_keeps_to_the_limit(fmt, share):
    share = of_a_mebibyte(share)
    p, names = params(3, 64, 1, 60, 7, 2, 3, batch=3), OPERANDS["input gradient"]
    held = whole_numbers(p, 0)
    a, b = (laid(held[name], "last", fmt.dtype) for name in names[:2])
    out = laid(np.zeros(shapes(p)[names[2]]), "last", np.float32)
    made = lowered(p, "input gradient", a, b, out, available_memory_proportion=share)
    assert all(isinstance(plan, Dots) for plan in made.plan.products)
    assert "dots of input channels" in made.plan.explain().decisions["method"]
    before = memory_in_use()
    memory_peak(reset=True)
    guarded(made, a, b, out)
    assert memory_peak() - before <= share * Target.host(1).bytes_per_tile
    assert np.array_equal(out, reference(p, "input gradient", held[names[0]], held[names[1]]))


def test_where_the_limit_is_too_small_a_product_of_matrices_is_taken():
    p = params(1, 1, 96, 28, 3, 1, 1)
    x, w, y = (laid(value, "last", np.float16) for value in whole_numbers(p, 0).values())
    with pytest.raises(MemoryLimitError):
        lowered(p, "forward", x, w, y, available_memory_proportion=1e-4, strict_memory=True)
    for share in map(of_a_mebibyte, (0.006, 0.008, 0.012, 0.016)):
        made = lowered(p, "forward", x, w, y, available_memory_proportion=share)
        assert made.plan.fits
        made.executable(x, w, y)
        assert np.array_equal(y, reference(p, "forward", x, w))


def test_the_plan_says_which_method_and_why():
    p = params(4, 4, 8, 9, 3, 1, 1)
    x, w, y = (laid(value, "last", np.float32) for value in whole_numbers(p, 0).values())
    found = lowered(p, "forward", x, w, y).plan.explain()
    assert found.decisions["method"].startswith("lanes side by side: 4 to 4 channels in a group are few")
    assert found.decisions["lanes"] == f"{LANES}, 100% used: 4 groups of 4"
    assert found.chosen.name in found.decisions["kernel"]


def products_of(shape, which, layout):
    """The plans of a pass of FP32 zeros that lie so."""
    p, names = params(*shape), OPERANDS[which]
    a, b, out = (laid(np.zeros(shapes(p)[name]), layout, np.float32) for name in names)
    return lowered(p, which, a, b, out).plan.products


@pytest.mark.parametrize(("shape", "which", "layout", "words"), [
    ((1, 1, 16, 9, 3, 1, 1), "forward", "last", "images read where they lie"),
    ((3, 64, 1, 20, 7, 1, 1), "forward", "last", "images decoded first"),
    ((64, 1, 1, 20, 3, 1, 0), "forward", "last", "images read where they lie"),
    ((64, 1, 1, 20, 3, 1, 1), "forward", "last", "images read where they lie for 81%, decoded first for others"),
])  # fmt: skip
def test_the_plan_says_how_boxes_take_the_images(shape, which, layout, words):
    for plan in products_of(shape, which, layout):
        said = plan.explain().decisions
        assert said["boxes"].endswith(f"; {words}")
        assert "1 groups" not in said["lanes"]


TILES = {name: tile for name, tile in vars(few).items() if isinstance(tile, Tile)}


def test_tiles_differ_and_fill_in_what_the_driver_s_record_has():
    assert len(set(TILES.values())) == len(TILES)
    for tile in TILES.values():
        assert {tile.slot, *tile.holds} <= set(SPEC.names)


@pytest.mark.parametrize(("shape", "which", "layout", "name"), [
    ((3, 5, 4, 8, 3, 1, 1), "forward", "last", "PLAIN"), ((1, 1, 16, 9, 3, 1, 1), "forward", "last", "SLIDES"),
    ((3, 64, 1, 20, 7, 2, 3), "input gradient", "last", "DOTS"),
    ((3, 5, 4, 8, 3, 1, 1), "weight gradient", "first", "PLAIN"),
    ((8, 8, 4, 8, 3, 1, 1), "weight gradient", "last", "QUADS"),
    ((1, 1, 16, 9, 3, 1, 1), "weight gradient", "last", "TAP_SLIDES"),
])  # fmt: skip
def test_the_search_chooses_the_tile_and_its_kernel(shape, which, layout, name):
    for plan in products_of(shape, which, layout):
        assert (plan.tile, plan.kernel.op, plan.kernel.formats) == (TILES[name], TILES[name].op, "float32")
        assert isinstance(plan, OverTaps) == (which == "weight gradient")
        assert plan.compute_format == FP32
        assert replace(plan, tile=few.ROW_PAIRS).compute_format == BF16


@pytest.mark.skipif(not on_units(BF16, BF16, GemmOptions()), reason="no kernels of BF16 products here")
@pytest.mark.parametrize(("shape", "which", "name"), [
    ((8, 8, 4, 8, 3, 1, 1), "weight gradient", "QUADS"), ((4, 6, 5, 16, 3, 1, 1), "weight gradient", "PLAIN"),
    ((8, 8, 4, 8, 3, 1, 1, 2, 2, 3), "forward", "WORDS"), ((8, 8, 4, 8, 3, 1, 1), "forward", "WORD_SLIDES"),
    ((8, 8, 4, 8, 3, 1, 1), "input gradient", "WORD_SLIDES"), ((4, 4, 8, 8, 3, 2, 1), "forward", "WORD_SLIDES"),
    ((1, 1, 16, 9, 3, 1, 1), "weight gradient", "TAP_SLIDES"),
    ((1, 1, 16, 9, 3, 1, 1), "forward", "ROW_PAIRS"), ((1, 1, 16, 8, 3, 2, 1), "input gradient", "ROW_PAIRS"),
    ((1, 1, 16, 40, 5, 1, 2, 1, 1), "forward", "LINE_PAIRS"),
    ((1, 1, 16, 40, 6, 1, 2, 1, 1), "input gradient", "LINE_PAIRS"),
])  # fmt: skip
@pytest.mark.parametrize("fmt", [BF16, F143], ids=str)
def test_numbers_are_multiplied_as_bf16_two_at_once(shape, which, name, fmt):
    p, names = params(*shape), OPERANDS[which]
    a, b, out = (laid(np.zeros(shapes(p)[name]), "last", fmt.dtype) for name in names)
    products = lowered(p, which, a, b, out).plan.products
    assert {(one.kernel.op, one.kernel.formats) for one in products} == {(TILES[name].op, "bfloat16")}
    assert {one.compute_format for one in products} == {BF16}
    decoded = [one for one in products if not one.over_taps and (fmt == F143 or one.tile.w == FP32)]
    assert any(one.run for one in products) == bool(decoded)


@pytest.mark.parametrize("which", PASSES)
def test_tiles_ask_for_what_outgrows_the_second_level_cache_several_times(which):
    most = 4 * Target.host(1).bytes_per_tile // (2 * 4 * 64 * 14**2)
    for images_, asks in ((most * 7 // 8, False), (most * 9 // 8, True)):
        p = params(1, 1, 64, 14, 3, 1, 1, images_)
        a, b, out = (laid(np.zeros(shapes(p)[name]), "last", np.float32) for name in OPERANDS[which])
        assert {one.looks_ahead for one in lowered(p, which, a, b, out).plan.products} == {asks}


def test_gradients_of_the_weights_of_many_images_are_no_products_made_first():
    p = params(1, 1, 16, 9, 3, 1, 1, 40)
    x, y, w = (laid(np.zeros(shapes(p)[name]), "last", np.float32) for name in "xyw")
    plan = lowered(p, "weight gradient", x, y, w).plan
    assert isinstance(plan.way, Phases)
    assert plan.products[0].tile == few.TAP_SLIDES


def test_dense_convolutions_stay_products_of_matrices():
    p = params(32, 32, 1, 9, 3, 1, 1)
    x, w, y = (laid(value, "last", np.float32) for value in whole_numbers(p, 0).values())
    assert not isinstance(lowered(p, "forward", x, w, y).plan.products[0], FewPlan)


def grouped_golden(case: Arrays) -> None:
    """All passes of a golden convolution that has groups, in FP32 and FP16."""
    c = case.params["convParams"]
    if c["numConvGroups"] == 1:
        pytest.skip("no groups")
    def per_dim(name, fields, kind):
        return [kind(*values) for values in zip(*(c[f"{name}Transform"][field] for field in fields), strict=True)]

    p = ConvParams.create(
        batch=c["batchSize"], field=c["inputFieldShape"], kernel=c["kernelShape"], groups=c["numConvGroups"],
        in_channels=c["inputChannelsPerConvGroup"], out_channels=c["outputChannelsPerConvGroup"],
        input_transform=per_dim("input", _FIELD, FieldTransform),
        kernel_transform=per_dim("kernel", _FIELD, FieldTransform),
        output_transform=per_dim("output", _OUTPUT, OutputTransform),
    )  # fmt: skip
    golden = {"x": case["x"], "w": case["weights"], "y": case["out_grad"]}
    wanted = {"forward": case["out"] - case["biases"].reshape(1, -1, *[1] * p.ndim), "input gradient": case["in_grad"]}
    if "weight_deltas" in case.spec["outputs"]:
        wanted["weight gradient"] = case["weight_deltas"]
    for which, fmt, layout in itertools.product(wanted, (FP32, FP16), LAYOUTS):
        names, want = OPERANDS[which], np.asarray(wanted[which], float)
        a, b = (laid(golden[name], layout, fmt.dtype) for name in names[:2])
        out = laid(np.zeros(want.shape), layout, np.float32)
        lowered(p, which, a, b, out).executable(a, b, out)
        steps = want.size + a.size + b.size  # more than any sum has
        bound = steps * 2.0**-23 * reference(p, which, a, b, absolute=True)
        assert (np.abs(out - want) <= bound).all()


_FIELD = ("truncationLower", "truncationUpper", "dilation", "paddingLower", "paddingUpper", "flip")
_OUTPUT = ("truncationLower", "truncationUpper", "stride", "paddingLower", "paddingUpper")


@pytest.mark.parametrize(("run", "case"), [
    found for found in parameters("POPLIBS_OP_GOLDEN", "op-golden", ".npz", {"conv": grouped_golden})
    if str(found.id).startswith(("conv", "op-golden"))
])
def test_golden_convolutions_with_groups(run, case):
    run(case)


def test_a_bias_is_of_channels_where_images_are_innermost():
    out = np.zeros((2, 2, 4, 3), np.float32).transpose(3, 0, 1, 2)
    x, w, bias = np.zeros((3, 2, 2, 4), np.float32), np.zeros((3, 3, 4, 4), np.float32), np.arange(4, dtype=np.float32)
    assert (poplin.convolution(x, w, padding=1, layout="NHWC", bias=bias, out=out) == bias).all()
