"""Convolutions of small integers, whose sums are exact, in every pass, layout and transform."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py.poplin.conv.overlap import Overlap
from poplibs_py.poplin.tile_conv import ConvParams, FieldTransform, OutputTransform
from tests.poplin.conv.passes import PASSES, expected, lying, run, shapes
from tests.poplin.tile_conv.strategies import convolutions

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def check(which: str, p: ConvParams, orders: tuple[tuple[int, ...], ...], dtype: Any, seed: int, step: int = 1,
          **options: Any) -> None:
    """One pass on arrays that lie so, bit for bit; what lies between their elements stays."""
    rng = np.random.default_rng(seed)
    arrays = [lying(shape, order, dtype, step) for shape, order in zip(shapes(p), orders, strict=True)]
    for a in arrays:
        a[...] = rng.integers(-1, 2, a.shape)
    wanted = expected(which, p, *arrays)
    assert np.abs(wanted).max(initial=0) <= 256  # exact in each format
    run(which, p, *arrays, **options)
    made = arrays[{"forward": 2, "input gradient": 0, "weight gradient": 1}[which]]
    np.testing.assert_array_equal(made.astype(np.float64), wanted)


def plain(batch: int, field: tuple[int, ...], kernel: int, channels: tuple[int, int], stride: int = 1, pad: int = 1,
          dilation: int = 1, groups: int = 1) -> ConvParams:
    n = len(field)
    return ConvParams.create(
        batch=batch, field=field, kernel=[kernel] * n, in_channels=channels[0], out_channels=channels[1], groups=groups,
        input_transform=[FieldTransform(padding_lower=pad, padding_upper=pad)] * n,
        kernel_transform=[FieldTransform(dilation=dilation)] * n, output_transform=[OutputTransform(stride=stride)] * n,
    )  # fmt: skip


def orders_of(ndim: int, last: bool) -> tuple[tuple[int, ...], ...]:
    """Axes of images and kernels with channels first or last."""
    field = tuple(range(2, 2 + ndim))
    if not last:
        return tuple(range(2 + ndim)), tuple(range(3 + ndim)), tuple(range(2 + ndim))
    return (0, *field, 1), (0, 1, *(d + 1 for d in field), 2), (0, *field, 1)


CASES = [
    plain(2, (9, 9), 3, (16, 24)), plain(1, (7, 7), 3, (40, 20)), plain(3, (6, 5), 1, (8, 70), pad=0),
    plain(2, (12, 11), 3, (5, 18), stride=2), plain(1, (14, 14), 7, (3, 16), stride=2, pad=3),
    plain(2, (9, 8), 3, (8, 6), pad=2, dilation=2), plain(2, (6, 7), 3, (4, 5), groups=3),
    plain(2, (40,), 5, (3, 9), pad=2),
    plain(1, (5, 6, 7), 3, (4, 17)), plain(9, (4, 4), 3, (17, 33)), plain(1, (20, 20), 3, (33, 2)),
    plain(2, (18, 18), 3, (6, 7)), plain(2, (6, 7, 9), 3, (2, 17), stride=2), plain(1, (41,), 5, (4, 16), stride=3),
    plain(2, (30, 9), 4, (3, 20), stride=2, pad=2, dilation=1, groups=2),
    *(FEW_TAPS := [plain(1, (50,), 10, (1, 24), stride=5, pad=0), plain(2, (9, 8), 2, (1, 26), stride=2, pad=0),
                   plain(1, (30,), 5, (2, 25), pad=2)]),
]  # fmt: skip


@pytest.mark.parametrize("which", PASSES)
@pytest.mark.parametrize("p", CASES)
def test_each_pass_is_exact_in_each_layout(p: ConvParams, which: str) -> None:
    first, last = orders_of(p.ndim, False), orders_of(p.ndim, True)
    for number, mixed in enumerate(itertools.product((False, True), repeat=3)):
        orders = tuple((last if one else first)[i] for i, one in enumerate(mixed))
        check(which, p, orders, TYPES[number % 3 if 0 < number < 7 else 0], number)


@pytest.mark.parametrize("which", PASSES)
@pytest.mark.parametrize("p", CASES[:6])
def test_elements_apart_reproducible_small_memory_and_threads(p: ConvParams, which: str) -> None:
    for number, last in enumerate((False, True)):
        for step, options in ((2, {}), (1, {"reproducible": True}), (1, {"available_memory_proportion": 0.03}),
                              (1, {"threads": 2})):
            check(which, p, orders_of(p.ndim, last), np.float32, number, step, **options)


def test_few_channels_of_products_made_first() -> None:
    p = plain(2, (60, 61), 7, (3, 20), stride=2, pad=3)
    arrays = [np.ones(shape, np.float32) for shape in shapes(p)]
    ways = (True, {}), (False, {"reproducible": True}), (False, {"available_memory_proportion": 0.02})
    for threads in (1, 2, 3):
        for made, options in ways:
            plan = run("input gradient", p, *arrays, threads, **options).plan
            assert (isinstance(plan.way, Overlap)) == made == ("overlap" in str(plan))
            np.testing.assert_array_equal(arrays[0], expected("input gradient", p, *arrays))
    assert not isinstance(run("forward", p, *arrays).plan.way, Overlap)  # many channels
    for p in FEW_TAPS:
        arrays = [np.ones(shape, np.float32) for shape in shapes(p)]
        assert isinstance(run("input gradient", p, *arrays).plan.way, Overlap)


@settings(max_examples=60, deadline=None)
@given(convolutions(any_transform=True), st.sampled_from(PASSES), st.sampled_from(TYPES), st.integers(0, 7),
       st.randoms(use_true_random=False))
def test_any_transform_in_any_order_of_axes(p: ConvParams, which: str, dtype: Any, seed: int, random: Any) -> None:
    orders = []
    for axes in (2 + p.ndim, 3 + p.ndim, 2 + p.ndim):
        order = list(range(axes))
        random.shuffle(order)
        orders.append(tuple(order))
    check(which, p, tuple(orders), dtype, seed, 1 + seed % 2)
