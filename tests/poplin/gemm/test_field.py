"""A field's matrix, taken out by products with the identity, is what its definition says, element by element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poplibs_py.formats import FP32, format_of
from poplibs_py.poplin.gemm.field import Field, FieldDim
from poplibs_py.poplin.gemm.lower import lower
from poplibs_py.poplin.gemm.options import GemmOptions
from poplibs_py.poplin.gemm.params import GemmParams, MatrixLayout, contiguous
from poplibs_py.poplin.gemm.plan import Epilogue
from poplibs_py.poplin.gemm.search import plan_gemm
from poplibs_py.target import Target


def element(field: Field, memory: Any, position: tuple[int, ...], taps: tuple[int, ...], channel: int) -> Any:
    """What the matrix holds, as `FieldDim` defines it."""
    at = channel * field.channel
    for dim, p, t in zip(field.dims, position, taps, strict=True):
        c = dim.first + p * dim.step + t * dim.tap_step
        if not (dim.first_valid <= p < dim.end_valid and 0 <= c < dim.end) or c % dim.dilation:
            return 0
        at += c // dim.dilation * dim.stride
    return memory[at // memory.itemsize]


def matrix(field: Field, memory: Any) -> Any:
    """The whole matrix."""
    positions = list(itertools.product(*(range(dim.positions) for dim in field.dims)))
    depth = list(itertools.product(itertools.product(*(range(dim.taps) for dim in field.dims)), range(field.channels)))
    made = np.zeros((len(positions), len(depth)), np.float32)
    for i, p in enumerate(positions):
        for j, (t, c) in enumerate(depth):
            made[i, j] = element(field, memory, p, t, c)
    return made


@st.composite
def fields(draw: st.DrawFn) -> tuple[Field, int]:
    """Fields of any kind, strides in elements, and the elements of the memory that they lie in."""
    extents, dims = [], []
    for _ in range(draw(st.integers(1, 4))):
        positions, taps = draw(st.integers(1, 20)), draw(st.sampled_from([1, 1, 2, 3, 9]))
        elements, dilation = draw(st.integers(1, 20)), draw(st.sampled_from([1, 1, 1, 2]))
        step, tap_step = draw(st.sampled_from([1, 1, 1, 2, -1])), draw(st.sampled_from([1, 1, 2, -1]))
        first_valid = draw(st.sampled_from([0, 0, 1]))
        dims.append(FieldDim(positions, taps, step, tap_step, draw(st.integers(-3, 6)),
                             1 + (elements - 1) * dilation, dilation, 0, first_valid,
                             positions - draw(st.sampled_from([0, 0, 1]))))
        extents.append(elements)
        if np.prod([d.positions for d in dims]) * np.prod([d.taps for d in dims]) > 2000:
            dims, extents = dims[:-1] or [FieldDim.rows(3, 0)], extents[:-1] or [3]
            break
    extents.append(draw(st.sampled_from([1, 2, 3, 4, 5, 8])))  # channels
    order = draw(st.permutations(range(len(extents))))
    strides, step = [0] * len(extents), 1
    for axis in order:  # any order in memory
        strides[axis] = step
        step *= extents[axis] + draw(st.sampled_from([0, 0, 0, 1]))
    placed = tuple(dim._replace(stride=stride) for dim, stride in zip(dims, strides, strict=False))
    return Field(placed, extents[-1], strides[-1]), step


@settings(max_examples=settings.default.max_examples * 4)
@given(drawn=fields(), columns=st.booleans(), name=st.sampled_from(["float32", "float16", "float8_e4m3fn"]))
@example((Field((FieldDim(2, 1, 1, -1, 0, 2, 1, 4, 0, 2), FieldDim(6, 2, 1, 1, -2, 4, 1, 1, 1, 6)), 1, 1), 8), False,
         "float32")
@example((Field((FieldDim(5, 1, 1, 0, 0, 5, 1, 620, 0, 5), FieldDim(2, 310, 1, 2, -1, 620, 1, 1, 0, 2)), 8, 3100),
          24800), False, "float16")
def test_a_product_with_the_identity_is_the_matrix(drawn: tuple[Field, int], columns: bool, name: str) -> None:
    (field, size), item = drawn, format_of(name).itemsize
    dims = tuple(dim._replace(stride=dim.stride * item) for dim in field.dims)
    field = Field(dims, field.channels, field.channel * item)
    merged, offset = field.merged()
    memory = (np.arange(size) % 13 - 6).astype(format_of(name).dtype)
    due = matrix(field, memory)
    for one, at in ((field, 0), (merged, offset)):
        last = one.dims[-1]
        operand = MatrixLayout(format_of(name), last.step * last.stride, one.channel, field=one, offset=at)
        m, k = due.shape
        if columns:  # positions are columns of B
            out = np.full((k, m), np.nan, np.float32)
            params = GemmParams(k, m, k, contiguous(FP32, k, k), operand.transposed, contiguous(FP32, k, m))
        else:
            out = np.full((m, k), np.nan, np.float32)
            params = GemmParams(m, k, k, operand, contiguous(FP32, k, k), contiguous(FP32, m, k))
        made = lower(plan_gemm(params, GemmOptions(), Epilogue(), Target.host(1)))
        eye = np.eye(k, dtype=np.float32)
        operands = (eye, memory) if columns else (memory, eye)
        made.executable(*made.arrange(*operands, out))
        np.testing.assert_array_equal(out.T if columns else out, due)


@pytest.mark.parametrize("extents", [[(3, 4)], [(2, 12), (3, 4)], [(2, 16), (3, 4)], [(1, 0), (2, 8), (2, 4), (1, 4)]])
def test_results_in_line_are_one_dimension(extents: list[tuple[int, int]]) -> None:
    made = Field.of_results(extents)
    places = [sum(i * stride for i, (_, stride) in zip(at, extents, strict=True))
              for at in itertools.product(*(range(n) for n, _ in extents))]
    found = [sum(i * dim.out_stride for i, dim in zip(at, made.dims, strict=True))
             for at in itertools.product(*(range(dim.positions) for dim in made.dims))]
    assert found == places
    assert len(made.dims) == (2 if extents == [(2, 16), (3, 4)] else 1)


@pytest.mark.parametrize(("taps", "tap_step", "first"), [(3, 1, -1), (4, -1, 1), (2, 3, 0), (5, -2, 9), (2, 0, 3)])
def test_lines_of_neighbours_hold_what_every_tap_meets(taps: int, tap_step: int, first: int) -> None:
    rows = FieldDim(3, 2, 1, 1, -1, 4, 1, 40, 0, 3)
    field = Field((rows, FieldDim(33, taps, 1, tap_step, first, 40, 1, 1, 0, 33)), 2, 160)
    near, memory = field.neighbours(1), (np.arange(320) % 113 + 1).astype(np.int8)
    assert near is not None
    whole, lines = matrix(field, memory).reshape(99, 2, taps, 2), matrix(near.lines, memory).reshape(-1, 2, 2)
    row, x = np.divmod(np.arange(99), near.width)
    for tap in range(taps):
        at = row * near.lines.dims[-1].positions + x + tap * near.apart - min(0, (taps - 1) * tap_step)
        np.testing.assert_array_equal(lines[at], whole[:, :, tap])


@pytest.mark.parametrize("other", [{"taps": 1}, {"step": 2}, {"stride": 2}, {"positions": 31}, {"dilation": 2},
                                   {"first_valid": 1}, {"end_valid": 39}])
def test_what_has_no_neighbours_in_line(other: dict[str, int]) -> None:
    dim = FieldDim(40, 3, 1, 1, 0, 42, 1, 1, 0, 40)
    assert Field((dim,), 2, 42).neighbours(1) is not None
    assert Field((dim._replace(**other),), 2, 42).neighbours(1) is None
