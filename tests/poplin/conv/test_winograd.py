"""3x3 convolutions by Winograd's transforms: within the bound of the tile that the plan takes, in any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import of_a_mebibyte

from poplibs_py import poplin, profile
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidTypeError, UnsupportedError
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv.winograd import Winograd
from poplibs_py.poplin.conv.winograd_bound import IMAGES, KERNELS, RESULTS, ROUNDINGS
from poplibs_py.poplin.tile_conv import OutputTransform
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits, bound, check
from poplibs_py.testing.strategies import layouts, relaid

RNG = np.random.default_rng(13)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def taken(call: Any) -> Any:
    """A call's plan, by transforms or not."""
    with profile() as report:
        call()
    return report.runs[0].plan


@pytest.mark.parametrize("tile", [2, 4])
def test_the_transforms_make_a_convolution(tile: int) -> None:
    into, of_kernels, out_of = (np.array(m[tile], float) for m in (IMAGES, KERNELS, RESULTS))
    x, w = RNG.standard_normal((tile + 2, tile + 2)), RNG.standard_normal((3, 3))
    got = out_of @ ((of_kernels @ w @ of_kernels.T) * (into @ x @ into.T)) @ out_of.T
    expected = [[(x[i : i + 3, j : j + 3] * w).sum() for j in range(tile)] for i in range(tile)]
    assert np.allclose(got, expected, rtol=1e-12)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "few tiles": ((1, 80, 12, 8), (96, 80, 3, 3), {"padding": 1}),
    "edges": ((2, 30, 23, 21), (70, 30, 3, 3), {"padding": (0, (2, 1))}),
    "groups": ((2, 64, 14, 18), (64, 32, 3, 3), {"groups": 2, "padding": 1}),
    "columns in turns": ((1, 16, 18, 18), (200, 16, 3, 3), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_within_the_bound_of_their_tile_in_any_layout(case: str) -> None:
    x_shape, w_shape, how = CASES[case]
    x, w, bias = numbers(*x_shape), numbers(*w_shape), numbers(w_shape[0])
    y = check("convolution", x, w, bias=bias, activation="relu", winograd=True, **how)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    plans = [taken(lambda x=x: poplin.convolution(x, w, winograd=True, **how)) for x in (x, last)]
    assert [plan.way.tile for plan in plans] == [plans[0].way.tile] * 2
    assert_same_bits(poplin.convolution(last, w, bias=bias, activation="relu", winograd=True, **how), y)
    flat = np.moveaxis(np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2))), (-1, -2), (0, 1))
    assert_same_bits(poplin.convolution(x, flat, bias=bias, activation="relu", winograd=True, **how), y)
    with thread_limit(3):
        turned = x[:, ::-1][:, ::-1]
        assert_same_bits(poplin.convolution(turned, w, bias=bias, activation="relu", winograd=True, **how), y)
    rest = numbers(*y.shape)
    check("convolution", x, w, residual=rest, out_dtype="float32", winograd=True, **how)
    check("convolution", x, w, out_dtype="float16", winograd=True, **how)
    check("convolution_input_gradient", y, w, field_shape=x_shape[2:], winograd=True, **how)


@settings(max_examples=max(5, settings.default.max_examples // 5))
@given(data=st.data())
def test_any_sizes_and_layouts_in_memory(data: st.DataObject) -> None:
    batch, groups = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 1, 2]))
    field = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
    taken, made = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 70))
    padding = data.draw(st.tuples(*[st.tuples(st.integers(1, 3), st.integers(1, 3))] * 2))
    x, w = numbers(batch, groups * taken, *field), numbers(groups * made, taken, 3, 3)
    how: dict[str, Any] = {"padding": padding, "groups": groups, "winograd": True,
                           "reproducible": data.draw(st.booleans())}
    y = check("convolution", relaid(x, data.draw(layouts())), relaid(w, data.draw(layouts())), **how)
    check("convolution_input_gradient", relaid(y, data.draw(layouts())), w, field_shape=field, **how)


def test_the_bound_is_the_tile_s() -> None:
    x, w = numbers(1, 48, 20, 20), numbers(48, 48, 3, 3)
    plan = taken(lambda: poplin.convolution(x, w, padding=1, winograd=True))
    assert plan.way.tile == 4
    wide, narrow = (bound("convolution", x, w, padding=1, **how).radius for how in ({"winograd": True}, {}))
    assert (wide > narrow).all()
    assert ROUNDINGS == {2: 10, 4: 18}


def test_what_is_not_finite_stays_in_its_tiles() -> None:
    x, w = numbers(1, 48, 24, 24), numbers(48, 48, 3, 3)
    x[0, 3, 10, 10], w[5, 7, 1, 1], x[0, 2, 20, 20] = np.nan, np.inf, 1e37
    y = check("convolution", x, w, padding=1, winograd=True)
    radius = bound("convolution", x, w, padding=1, winograd=True).radius
    assert 0.5 < np.isfinite(radius).mean() < 1
    assert np.isfinite(y[np.isfinite(radius)]).all()


def test_tiny_numbers_are_within_the_bound() -> None:
    x, w = numbers(1, 32, 24, 24), numbers(32, 32, 3, 3)
    check("convolution", x * np.float32(1e-20), w * np.float32(1e-21), padding=1, winograd=True)
    check("convolution", x * np.float32(1e-3), w * np.float32(1e-44), padding=1, winograd=True)


def test_the_plan_says_which_tile_or_why_none() -> None:
    def words(**how: Any) -> str:
        sizes: dict[str, Any] = {"field": [24, 24], "kernel": [3, 3], "in_channels": 64, "out_channels": 64}
        known = "dtype", "available_memory_proportion", "partials_type"
        options = {name: how.pop(name) for name in known if name in how}
        p = ConvParams.create(**sizes | how)
        return poplin.plan_convolution(p, target="host", winograd=True, **options).explain().decisions["winograd"]

    assert words() == "F(4x4, 3x3): 36 products for 16 results in place of 144; 36 tiles of an image"
    assert words(field=[10, 10], in_channels=256, out_channels=256).startswith("F(2x2, 3x3): 16 products")
    assert words(dtype="float16") == "not taken: operands are float16 and float16, not float32"
    assert words(partials_type="half") == "not taken: partials are half"
    strides = [OutputTransform(stride=2)] * 2
    assert words(output_transform=strides) == "not taken: there is a stride, or the input is flipped"
    assert words(kernel=[3, 1]) == "not taken: the kernel is 3x1, not 3x3"
    assert words(field=[24], kernel=[3]) == "not taken: there are 1 field dimensions, not 2"
    assert words(in_channels=3, out_channels=4) == "not taken: transforms would take longer than they save"
    assert words(available_memory_proportion=0.01).startswith("not taken: it takes ")


@pytest.mark.parametrize(("proportion", "threads"), [(0.1, 2), (0.3, 1), (0.9, 2)])
def test_temporaries_keep_to_the_limit(proportion: float, threads: int) -> None:
    x, w = numbers(1, 32, 20, 20), numbers(160, 32, 3, 3)
    out = np.empty((1, 160, 20, 20), np.float32)
    small, proportion = proportion < 0.3, of_a_mebibyte(proportion)
    how: dict[str, Any] = {"padding": 1, "winograd": True, "available_memory_proportion": proportion,
                           "strict_memory": True}
    with thread_limit(threads):
        check("convolution", x, w, **how)
        plan = taken(lambda: poplin.convolution(x, w, out=out, **how))
        assert plan.fits
        assert isinstance(plan.way, Winograd) != small
        memory_peak(reset=True)
        before = memory_in_use()
        poplin.convolution(x, w, out=out, **how)
        assert memory_peak() - before <= proportion * plan.target.bytes_per_tile * plan.threads


def test_a_plan_with_transforms_is_compiled() -> None:
    p = ConvParams.create(batch=2, field=[24, 24], kernel=[3, 3], in_channels=32, out_channels=48)
    for layout in ("NCHW", "NHWC"):
        plan = poplin.plan_convolution(p, target="host", winograd=True, layout=layout)
        assert isinstance(plan.way, Winograd)
        run = poplin.compile_convolution(plan)
        x, w = numbers(2, 32, 24, 24), numbers(1, 48, 32, 3, 3)
        if layout == "NHWC":
            x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (1, 2), (-1, -2))
        assert_same_bits(run(x, w), poplin.convolution(x, w, layout=layout, winograd=True))


def test_other_machines_and_words_are_refused() -> None:
    x, w = numbers(1, 16, 8, 8), numbers(16, 16, 3, 3)
    with pytest.raises(UnsupportedError, match=r"by Winograd's transforms"):
        poplin.convolution(x, w, winograd=True, target="gc200")
    with pytest.raises(InvalidTypeError, match=r"^winograd: got 4; allowed: True or False"):
        poplin.convolution(x, w, winograd=4)  # type: ignore[arg-type]
    with profile(target="gc200") as report:
        poplin.convolution(x, w, winograd=True)
    assert "Winograd" in report.runs[0].lacking
