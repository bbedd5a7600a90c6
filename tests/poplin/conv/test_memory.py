"""Temporary memory of convolutions on this CPU: what is counted keeps to the limit, whatever the problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, profile
from poplibs_py.config import thread_limit
from poplibs_py.formats import FORMATS, format_of
from poplibs_py.poplin import ConvParams, FieldTransform
from poplibs_py.poplin.conv.params import Described, images_shape, weights_shape
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing.conv_calls import conv_params

PASSES = ("forward", "input gradient", "weight gradient")


@st.composite
def planes(draw: st.DrawFn) -> ConvParams:
    """Convolutions by 3x3 kernels with so many channels that transforms may pay."""
    padding = FieldTransform(padding_lower=draw(st.integers(0, 2)), padding_upper=draw(st.integers(0, 2)))
    return ConvParams.create(
        batch=draw(st.integers(1, 2)), field=[draw(st.integers(3, 24)), draw(st.integers(3, 24))], kernel=[3, 3],
        in_channels=draw(st.integers(1, 48)), out_channels=draw(st.integers(1, 80)),
        groups=draw(st.sampled_from([1, 2])), input_transform=[padding] * 2,
    )  # fmt: skip


def keeps_to_the_limit(p: ConvParams, names: tuple[str, str], layout: str, pass_: str, how: dict[str, Any]) -> bool:
    """Run a pass within a limit, and say whether there was a plan; what it takes must keep to the limit."""
    described = Described(layout=layout)
    x, w, y = (np.ones(shape, format_of(name).dtype) for shape, name in (
        (images_shape(described, p.batch, p.groups * p.in_channels, p.field_shape), names[0]),
        (weights_shape(described, p, True), names[1]),
        (images_shape(described, p.batch, p.groups * p.out_channels, p.output_shape), names[0])))
    out = {"forward": y, "input gradient": x, "weight gradient": w}[pass_]
    out = np.empty(out.shape, np.float32)
    how = how | {"params": p, "layout": layout, "strict_memory": True}

    def call() -> None:
        if pass_ == "forward":
            poplin.convolution(x, w, out=out, **how)
        elif pass_ == "input gradient":
            poplin.convolution_input_gradient(y, w, out=out, **how)
        else:
            poplin.calculate_weight_deltas(y, x, out=out, **{k: v for k, v in how.items() if k != "winograd"})

    with profile() as report:
        try:
            call()
        except MemoryError:
            return False
    if not out.size:
        return True
    plan = report.runs[0].plan
    memory_peak(reset=True)
    before = memory_in_use()
    call()
    limit = how["available_memory_proportion"] * plan.target.bytes_per_tile * plan.threads
    assert memory_peak() - before <= limit
    assert plan.temporary_bytes <= limit
    return True


def test_scratch_is_counted_in_whole_lines() -> None:
    p = ConvParams.create(batch=2, field=[6, 10], kernel=[3, 3], in_channels=2, out_channels=1, groups=2)
    how = {"winograd": False, "available_memory_proportion": 0.002}
    keeps_to_the_limit(p, ("float32", "float32"), "NCHW", "forward", how)


@pytest.mark.parametrize("count", [120, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])])
def test_temporaries_keep_to_the_limit(count: int) -> None:
    done = 0

    @settings(max_examples=count)
    @given(p=st.one_of(conv_params(), planes()), names=st.tuples(*[st.sampled_from([f.name for f in FORMATS])] * 2),
           winograd=st.booleans(), layout=st.sampled_from(["NCHW", "NHWC"]), pass_=st.sampled_from(PASSES),
           proportion=st.floats(0.002, 1.0), threads=st.integers(1, 3))
    def inner(p: ConvParams, names: tuple[str, str], winograd: bool, layout: str, pass_: str, proportion: float,
              threads: int) -> None:
        nonlocal done
        how = {"winograd": winograd, "available_memory_proportion": proportion}
        with thread_limit(threads):
            done += keeps_to_the_limit(p, ("float32", "float32") if winograd else names, layout, pass_, how)

    inner()
    assert done > count / 2  # else there is little that was shown
