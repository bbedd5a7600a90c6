"""Which arrays share memory: where both step alike exactly as NumPy's search says, and never less than it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops
from poplibs_py.program import memory_in_use, memory_peak, share_memory

STEPS = st.tuples(*(st.sampled_from([1, 2, 3, -1, -2]),) * 3)


@st.composite
def views(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays that step alike through one: of other extents and beginnings, and of items of up to 4 bytes."""
    whole = np.zeros(draw(st.tuples(*(st.integers(1, 7),) * 3)), np.float32).transpose(draw(st.permutations(range(3))))
    steps, made = draw(STEPS), []
    for _ in range(2):
        ends = [sorted(draw(st.tuples(*(st.integers(0, n),) * 2)), reverse=step < 0)
                for n, step in zip(whole.shape, steps, strict=True)]
        part = whole[tuple(slice(a, b, step) for (a, b), step in zip(ends, steps, strict=True))]
        made.append(part.view(np.dtype({"names": ["item"], "formats": [draw(st.sampled_from(["u1", "u2", "f4"]))],
                                        "itemsize": 4}))["item"])
    return made[0], made[1]


@given(views())
def test_arrays_that_step_alike_share_what_numpy_finds(both):
    first, second = both
    assert share_memory(first, second) == share_memory(second, first) == np.shares_memory(first, second)


@given(st.data())
def test_arrays_that_lie_in_any_way_share_no_less_than_numpy_finds(data):
    memory, made = np.zeros(400, np.uint8), []
    for _ in range(2):
        shape = data.draw(st.lists(st.integers(0, 4), max_size=4))
        strides = [data.draw(st.integers(-12, 12)) for _ in shape]
        made.append(np.ndarray(shape, np.uint8, memory, data.draw(st.integers(188, 212)), strides))
    assert share_memory(*made) >= np.shares_memory(*made)


def test_arrays_of_many_axes_are_told_by_their_ranges():
    x = np.zeros((2,) * 12)
    assert share_memory(x[..., :1], x[..., 1:])
    assert not share_memory(x[:1], x[1:])


@pytest.mark.parametrize("step", [2, -2])
def test_an_out_between_an_operand_s_elements_is_written_to_where_it_lies(step):
    numbers = np.linspace(-1, 1, 200_000, dtype=np.float32)
    x, out = (numbers[::2], numbers[1::2]) if step > 0 else (numbers[-2::-2], numbers[::-2])
    given, expected = x.copy(), popops.exp(x.copy())
    before = memory_in_use()
    memory_peak(reset=True)
    for _ in range(3):  # the long way, and as it is kept
        out[...] = 0
        popops.exp(x, out=out)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(x, given)
    assert memory_peak() - before < out.nbytes


def test_results_may_interleave():
    x, made = np.arange(-500, 500, dtype=np.float32), np.zeros(2000, np.float32)
    for _ in range(3):
        popops.map(lambda a: (a + 1, a * 2), x, out=(made[::2], made[1::2]))
        np.testing.assert_array_equal(made.reshape(-1, 2), np.stack([x + 1, x * 2], 1))
        made[...] = 0
