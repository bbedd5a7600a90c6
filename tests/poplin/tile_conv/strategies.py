"""Hypothesis strategies for convolutions, options and targets, small enough to check by brute force."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.poplin.tile_conv import Axis, ConvParams, FieldTransform, OutputTransform
from poplibs_py.poplin.tile_conv.options import PASSES
from poplibs_py.target import Target


@st.composite
def field_transforms(draw: st.DrawFn, size: int) -> FieldTransform:
    lower = draw(st.integers(0, min(size, 2)))
    upper = draw(st.integers(0, min(size - lower, 2)))
    pads = [draw(st.integers(0, 2)) for _ in range(2)]
    return FieldTransform(lower, upper, draw(st.integers(1, 3)), *pads, draw(st.booleans()))


@st.composite
def axes(draw: st.DrawFn, largest: int = 7) -> Axis:
    """Any axis that ConvParams accepts."""
    field, kernel = draw(st.integers(1, largest)), draw(st.integers(1, 4))
    axis = Axis(field, kernel, draw(field_transforms(field)), draw(field_transforms(kernel)))
    assume(axis.transformed_kernel >= 1)
    assume(axis.transformed_input >= axis.transformed_kernel)
    room = axis.raw_output
    lower = draw(st.integers(0, min(room, 2)))
    upper = draw(st.integers(0, min(room - lower, 2)))
    output = OutputTransform(lower, upper, draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    return axis._replace(output=output)


@st.composite
def plain_axes(draw: st.DrawFn) -> Axis:
    """Axes as layers have them: padding, stride, kernel dilation."""
    kernel = draw(st.integers(1, 3))
    dilation = draw(st.integers(1, 2))
    pad = draw(st.integers(0, kernel - 1))
    reach = 1 + (kernel - 1) * dilation
    field = draw(st.integers(max(1, reach - 2 * pad), 8))
    return Axis(
        field,
        kernel,
        FieldTransform(padding_lower=pad, padding_upper=pad),
        FieldTransform(dilation=dilation),
        OutputTransform(stride=draw(st.integers(1, 2))),
    )


@st.composite
def convolutions(draw: st.DrawFn, any_transform: bool = False) -> ConvParams:
    """Small convolutions of one to three dimensions."""
    dims = draw(st.lists(axes(5) if any_transform else plain_axes(), min_size=1, max_size=2))
    given, made = draw(st.sampled_from([("half", "half"), ("float", "float"), ("half", "float"), ("quarter", "half")]))
    try:
        return ConvParams.create(
            input_type=given,
            output_type=made,
            batch=draw(st.integers(1, 4)),
            field=[a.field for a in dims],
            kernel=[a.kernel for a in dims],
            in_channels=draw(st.integers(1, 24)),
            out_channels=draw(st.integers(1, 24)),
            groups=draw(st.integers(1, 5)),
            input_transform=[a.input for a in dims],
            kernel_transform=[a.weights for a in dims],
            output_transform=[a.output for a in dims],
        )
    except InvalidArgumentError:
        assume(False)
        raise


targets = st.builds(
    lambda tiles, fp8: Target.small(tiles, **({"conv_units": Target.c600().conv_units} if fp8 else {})),
    st.integers(1, 12),
    st.booleans(),
)
passes = st.sampled_from([p for p in PASSES if p not in ("FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU")])
