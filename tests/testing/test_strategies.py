"""The strategies reach what they promise."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from poplibs_py.formats import E4M3, F152, FORMATS, FP16, FP32
from poplibs_py.formats.reference import decode, encode
from poplibs_py.testing import strategies, values_of
from poplibs_py.testing.calls import calls


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_bit_patterns_reach_every_class(fmt):
    wanted = {
        "subnormal": lambda v: 0 < abs(v) < fmt.smallest_normal,
        "largest": lambda v: abs(v) == fmt.max,
        "smallest": lambda v: abs(v) == fmt.smallest_subnormal,
        "nan": np.isnan,
        "zero": lambda v: v == 0,
    }
    if fmt.has_infinity:
        wanted["infinity"] = np.isinf
    for accept in wanted.values():
        code = find(strategies.codes(fmt), lambda c, a=accept: a(values_of(np.array(c, fmt.code_dtype), fmt)))
        assert 0 <= code < 1 << fmt.bits


@given(st.data())
def test_finite_means_finite(data):
    fmt = data.draw(strategies.formats(custom=True))
    array = data.draw(strategies.arrays(data.draw(strategies.shapes(2, most=12)), fmt, finite=True))
    assert np.isfinite(values_of(array, fmt)).all()


@given(st.data(), strategies.layouts())
def test_layouts_keep_the_content(data, layout):
    array = data.draw(strategies.arrays(data.draw(strategies.shapes(2, most=6)), FP16))
    again = strategies.relaid(array, layout)
    assert (again.shape, again.dtype, again.tobytes()) == (array.shape, array.dtype, array.tobytes())


def test_layouts_are_what_their_names_say():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert strategies.relaid(array, "fortran").flags.f_contiguous
    assert max(strategies.relaid(array, "reversed").strides) < 0
    assert strategies.relaid(array, "stepped").strides == (64, 8)
    assert strategies.relaid(array, "padded").strides == (28, 4)
    assert not strategies.relaid(array, "misaligned").flags.aligned
    assert not strategies.relaid(array, "read_only").flags.writeable
    assert strategies.relaid(array, "broadcast").strides[0] == 0


def test_extents_surround_every_grain():
    for family in ("dot", "sparse", "cast"):
        for grain in strategies.grains(family):
            for extent in (grain - 1, grain, grain + 1):
                assert find(strategies.extents(family, most=4 * grain + 4), lambda e, x=extent: e == x) == extent


@given(strategies.block_masks(st.integers(1, 9), st.integers(1, 9)))
def test_masks_are_masks(mask):
    assert mask.dtype == bool
    assert mask.ndim == 2


def test_masks_reach_empty_rows_and_full_ones():
    masks = strategies.block_masks(6, 6)
    assert find(masks, lambda m: m.any() and not m.any(axis=1).all()).any()
    assert find(masks, lambda m: m.all()).all()
    assert not find(masks, lambda m: not m.any()).any()


def test_patterns_have_ragged_edges_groups_and_no_rows():
    drawn = strategies.block_patterns([(3, 5)], most=12, groups=2)
    assert find(drawn, lambda p: p.is_ragged and p.n_blocks > 1).block_shape == (3, 5)
    assert find(drawn, lambda p: p.groups == 2 and p.density == 1).n_blocks
    assert find(drawn, lambda p: not p.shape[0] and p.shape[1]).shape[0] == 0
    assert all(extent <= 12 for extent in find(drawn, lambda p: max(p.shape) > 9).shape)


def test_options_are_left_out_or_allowed():
    drawn = strategies.options({"rounding": ["stochastic"], "alpha": st.just(2.0)})
    assert find(drawn, lambda o: len(o) == 2) == {"rounding": "stochastic", "alpha": 2.0}
    assert find(drawn, lambda o: not o) == {}


def test_hypothesis_is_imported_only_when_asked_for():
    code = ("import sys; from poplibs_py import testing; assert 'hypothesis' not in sys.modules; "
            "testing.strategies.codes")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_moderate_arrays_repeat_their_format():
    array = find(strategies.arrays((4, 4), F152, moderate=True), lambda a: True)
    assert array.dtype == F152.dtype


@pytest.mark.parametrize("wide", [FP32, FP16], ids=str)
def test_numbers_lie_in_the_middle_between_those_of_the_format_they_are_near(wide):
    numbers = decode(np.arange(E4M3.max_code + 1).astype(np.uint8), E4M3)
    middles = (numbers[1:] + numbers[:-1]) / 2
    for near, count in ((E4M3, 8), (None, 40)):  # few numbers, and a palette; named, and drawn
        drawn = strategies.arrays((count,), wide, finite=True, near=near)
        assert find(drawn, lambda x: np.isin(np.abs(x.astype(np.float64)), middles).any()).size == count


def test_a_quantiser_that_rounds_ties_away_is_found():
    def ties_away(x):
        step = np.exp2(np.maximum(np.floor(np.log2(np.abs(x), where=x != 0, out=np.zeros_like(x))), -6) - 3)
        return np.copysign(np.floor(np.abs(x) / step + 0.5) * step, x)

    near = strategies.arrays((9,), FP32, finite=True, near=E4M3)
    drawn = near.map(lambda x: np.clip(x, -200, 200).astype(np.float64))
    found = find(drawn, lambda x: (ties_away(x) != decode(encode(x, E4M3), E4M3)).any())
    assert (ties_away(found) != decode(encode(found, E4M3), E4M3)).any()


def test_strategies_are_kept_and_values_keep_their_types():
    assert strategies.codes("float32") is strategies.codes(FP32)
    assert strategies.codes("float32", finite=True) is not strategies.codes("float32")
    assert strategies.shapes(2, "dot") is strategies.shapes(2, "dot")
    assert calls("matmul") is calls("poplin.matmul")
    assert type(find(strategies.sampled(0, 1), lambda _: True)) is int
    assert type(find(strategies.sampled(False, True), lambda _: True)) is bool
