"""Index arithmetic of one field dimension, against enumeration of every index."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.poplin.tile_conv import Axis, ConvParams, FieldTransform, matmul_params
from poplibs_py.poplin.tile_conv.axis import input_range, kernel_range

from .strategies import axes, convolutions


def products(axis: Axis) -> set[tuple[int, int, int]]:
    """Every (output, kernel, input) that is multiplied."""
    found = set()
    for out in range(axis.out):
        for kernel in range(axis.kernel):
            element = axis.input_index(out, kernel)
            if element is not None:
                found.add((out, kernel, element))
    return found


def hull(values: set[int]) -> tuple[int, int]:
    return (min(values), max(values) + 1) if values else (0, 0)


@given(axes())
def test_kernel_index_is_the_inverse(axis: Axis) -> None:
    by_input = {
        (out, kernel, element)
        for out in range(axis.out)
        for element in range(axis.field)
        if (kernel := axis.kernel_index(out, element)) is not None
    }
    assert by_input == products(axis)


@given(axes(), st.data())
def test_input_range_is_the_hull(axis: Axis, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, axis.out))
    end = data.draw(st.integers(begin, axis.out))
    used = {e for out, _, e in products(axis) if begin <= out < end}
    assert input_range(axis, (begin, end)) == hull(used)


@given(axes())
def test_kernel_range_holds_every_kernel_element_used(axis: Axis) -> None:
    used = hull({k for _, k, _ in products(axis)})
    begin, end = kernel_range(axis, (0, axis.out))
    assert used == (0, 0) or (begin <= used[0] and used[1] <= end)


@given(axes())
def test_macs_count_products(axis: Axis) -> None:
    # the count steps over outputs that a dilated input leaves empty, so gaps inside a range are exact
    assert axis.macs() >= len(products(axis))
    if axis.input.dilation == 1:
        assert axis.macs() == len(products(axis))


@given(axes())
def test_canonical_form_computes_the_same(axis: Axis) -> None:
    canonical = axis.canonical()
    if canonical is None:
        assert not products(axis)
        return
    assert products(canonical) == products(axis)
    assert canonical.out == axis.out
    assert canonical.canonical() == canonical


@given(convolutions(any_transform=True))
def test_canonical_params_are_idempotent_and_keep_shapes(params: ConvParams) -> None:
    canonical = params.canonical()
    assert canonical.canonical() == canonical
    assert (canonical.field_shape, canonical.kernel_shape) == (params.field_shape, params.kernel_shape)
    assert canonical.output_shape == params.output_shape


@given(convolutions(any_transform=True))
def test_gradient_and_weight_update_have_the_forward_shapes(params: ConvParams) -> None:
    gradient, update = params.gradient(), params.weight_update()
    assert gradient.field_shape == params.output_shape
    assert gradient.output_shape == params.field_shape
    assert (gradient.in_channels, gradient.out_channels) == (params.out_channels, params.in_channels)
    assert update.kernel_shape == params.output_shape
    assert update.output_shape == params.kernel_shape
    assert (update.batch, update.in_channels) == (params.in_channels, params.batch)


@given(axes())
def test_swapping_twice_computes_the_same(axis: Axis) -> None:
    canonical = axis.canonical()
    if canonical is None:
        return
    swapped = canonical.swapped().canonical()
    assert swapped is not None
    assert {(o, k, e) for o, e, k in products(swapped)} == products(canonical)


def test_input_range_of_flipped_axis() -> None:
    flipped = FieldTransform(padding_lower=2, padding_upper=2, flip=True)
    axis = Axis(3, 5, flipped, FieldTransform(flip=True))
    assert input_range(axis, (0, 2), (1, 2)) == (0, 2)


def test_kernel_range_of_truncated_dilated_input() -> None:
    axis = Axis(3, 4, FieldTransform(truncation_upper=1, dilation=2, padding_lower=1))
    assert kernel_range(axis, (0, 1), (0, 3)) == (1, 4)


def test_matmul_counts_flops() -> None:
    assert matmul_params(3, 4, 5, 6, "half").flops() == 2 * 3 * 4 * 5 * 6
