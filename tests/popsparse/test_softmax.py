"""Softmax over stored blocks and its gradient: bounds, exact cases, every level the same bits, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import profile
from poplibs_py.config import settings, thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import E4M3, F143, F152, FORMATS, FP32
from poplibs_py.kernels import Selection, kernels
from poplibs_py.memo import forget
from poplibs_py.popsparse import (
    BlockPattern,
    BlockSparseMatrix,
    bs_softmax,
    bs_softmax_bound,
    bs_softmax_grad,
    bs_softmax_grad_bound,
    bs_softmax_in_place,
)
from poplibs_py.popsparse.softmax import model, params
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits, assert_within_bound, random_operand

LEVELS = sorted({kernel.level for kernel in kernels("softmax")})

formats = st.sampled_from(FORMATS)
masks = st.sampled_from(params.MASKS)


@st.composite
def scores(draw: Any, groups: int = 3) -> BlockSparseMatrix:
    """Numbers of any size in any format, on any pattern; edge blocks and a scale for each block too."""
    sides = draw(st.integers(1, 9)), draw(st.integers(1, 18))
    counts = draw(st.integers(1, groups)), draw(st.integers(1, 5)), draw(st.integers(1, 12))
    ragged = draw(st.integers(0, sides[0] - 1)), draw(st.integers(0, sides[1] - 1))
    shape = tuple(n * side - cut for n, side, cut in zip(counts[1:], sides, ragged, strict=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = rng.random(counts) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    dense = rng.normal(size=(counts[0], *shape)) * draw(st.sampled_from([0.0, 1.0, 10.0, 100.0]))
    format = draw(formats)
    dense = np.clip(dense, -min(format.max, 1e4), min(format.max, 1e4))
    return BlockSparseMatrix.from_dense(dense if counts[0] > 1 else dense[0], sides, dtype=format,
                                        mask=chosen if counts[0] > 1 else chosen[0])


def dense_of(w: BlockSparseMatrix) -> Any:
    return w.to_dense(np.float64)


def kept(w: BlockSparseMatrix, mask: str) -> Any:
    """Which elements are stored and not masked."""
    high, wide = w.block_shape
    keep = block_mask(w).repeat(high, -2).repeat(wide, -1)[..., : w.shape[0], : w.shape[1]]
    ones = np.ones(w.shape, bool)
    return keep & {"none": ones, "zero_upper_triangle": np.tril(ones), "zero_lower_triangle": np.triu(ones)}[mask]


def block_mask(x: BlockSparseMatrix) -> Any:
    chosen = np.zeros((x.groups, x.pattern.block_rows, x.pattern.block_columns), bool)
    group, row = np.divmod(x.pattern.row_indices, x.pattern.block_rows)
    chosen[group, row, x.column_indices] = True
    return chosen if x.groups > 1 else chosen[0]


def inside(w: BlockSparseMatrix) -> Any:
    """Which elements of the stored blocks lie in the matrix."""
    ones = np.ones(dense_of(w).shape, np.float32)
    return BlockSparseMatrix.from_dense(ones, w.block_shape, mask=block_mask(w)).blocks != 0


@given(scores(), masks, formats, st.booleans())
def test_within_the_bound(x: BlockSparseMatrix, mask: str, format: Any, turned: bool) -> None:
    if turned:
        x = x.T.copy().T
    y = bs_softmax(x, mask=mask, out_dtype=format)
    stored = x.copy()
    assert y.pattern == stored.pattern
    keep = kept(stored, mask)
    assert_within_bound(y.to_dense(), bs_softmax_bound(dense_of(stored), keep, format, y.scale))
    assert not dense_of(y)[~keep].any()


@given(scores(groups=2), st.data())
def test_a_mask_for_each_group(x: BlockSparseMatrix, data: Any) -> None:
    mask = [data.draw(masks) for _ in range(x.groups)]
    y = bs_softmax(x, mask=mask, out_dtype="float32")
    for g in range(x.groups):
        assert bs_softmax(x.group(g), mask=mask[g], out_dtype="float32").equals(y.group(g))


@given(scores(), masks, formats, st.integers(0, 2**32 - 1))
def test_every_level_and_number_of_threads_gives_the_same_bits(x: BlockSparseMatrix, mask: str, format: Any,
                                                               seed: int) -> None:
    grad = (x * 0).astype(format)
    grad.update(np.random.default_rng(seed).normal(size=x.blocks.shape) * inside(x))
    results = []
    with pytest.MonkeyPatch.context() as patch:
        for level in LEVELS:
            for threads in (1, 3):
                patch.setattr(model, "select", lambda family, op, name, level=level: Selection(next(
                    k for k in kernels(family) if (k.op, k.formats, k.level) == (op, name, level)), ()))
                patch.setattr(model, "WORK_FOR_A_THREAD", 1)
                forget()
                with thread_limit(threads):
                    y = bs_softmax(x, mask=mask, out_dtype=format)
                    mixed = bs_softmax_grad(y, x, out_dtype="float32")
                    results.append((y.blocks, bs_softmax_grad(y, grad).blocks, mixed.blocks))
    forget()
    for result in results[1:]:
        for got, want in zip(result, results[0], strict=True):
            assert_same_bits(got, want)


@given(scores(), formats, formats, st.integers(0, 2**32 - 1))
def test_gradient_within_the_bound(x: BlockSparseMatrix, of_y: Any, format: Any, seed: int) -> None:
    y = bs_softmax(x, out_dtype=of_y)
    values = np.random.default_rng(seed).normal(size=dense_of(x).shape)
    grad = BlockSparseMatrix.from_dense(values, x.block_shape, mask=block_mask(x), dtype=format)
    dx = bs_softmax_grad(y, grad)
    bound = bs_softmax_grad_bound(dense_of(y), dense_of(grad), dx.format, dx.scale)
    assert_within_bound(dx.to_dense(), bound)


@pytest.mark.parametrize("count", [1 << 18, pytest.param(1 << 25, marks=pytest.mark.nightly)])
def test_the_exponential(count: int) -> None:
    """Rows [0, x]: e^x / (1 + e^x) for so many FP32 numbers x from -88 to 0, evenly over their codes."""
    step = max(1, 0x42B00000 // count)
    for start in range(0, 0x42B00000, step << 22):
        codes = np.arange(start, min(start + (step << 22), 0x42B00000), step, dtype=np.uint32)
        x = np.zeros((codes.size, 1, 2), np.float32)
        x[:, 0, 1] = (codes | np.uint32(0x80000000)).view(np.float32)
        rows = np.arange(codes.size)
        w = BlockSparseMatrix.from_blocks(x, shape=(codes.size, 2), row_indices=rows, column_indices=0 * rows)
        got = bs_softmax(w).blocks
        assert_within_bound(got[:, 0], bs_softmax_bound(x[:, 0].astype(np.float64), np.ones((codes.size, 2), bool)))


def test_equal_elements_share_exactly() -> None:
    for count in (1, 2, 4, 64, 256):
        w = BlockSparseMatrix.from_dense(np.full((3, count), -7.5, np.float32), (1, 1))
        assert np.all(bs_softmax(w).blocks == 1 / count)


@given(scores(), st.integers(-8, 8))
def test_adding_a_power_of_two_grid_shift_changes_no_bit(x: BlockSparseMatrix, shift: int) -> None:
    whole = x.astype("float32")
    whole.update(np.rint(whole.blocks))
    moved = whole.copy()
    moved.update(np.where(inside(whole), whole.blocks + np.float32(shift), 0))
    assert_same_bits(bs_softmax(moved).blocks, bs_softmax(whole).blocks)


def test_special_values() -> None:
    inf, nan = np.inf, np.nan
    rows = [[1, -inf, 1, -inf], [-inf] * 4, [nan, -inf, -inf, 0], [inf, 0, 0, 0], [0, -200, -inf, -1e38]]
    x = np.array(rows, np.float32)
    for sides in ((1, 1), (1, 4), (5, 2)):
        w = BlockSparseMatrix.from_dense(x, sides, density=1)
        got = bs_softmax(w).to_dense()
        assert got[0].tolist() == [0.5, 0, 0.5, 0]
        assert got[1].tolist() == [0] * 4
        assert np.isnan(got[2]).all()
        assert np.isnan(got[3, 0])
        assert got[4].tolist() == [1, 0, 0, 0]


@given(scores(), masks)
def test_in_place_gives_the_same(x: BlockSparseMatrix, mask: str) -> None:
    if x.format.bits == 8:
        x = x.astype("float16")
    want = bs_softmax(x, mask=mask)
    grad = want.copy()
    dx = bs_softmax_grad(want, grad)
    assert bs_softmax_in_place(x, mask=mask) is x
    assert x.equals(want)
    assert bs_softmax_grad(want, grad, out=grad) is grad
    assert grad.equals(dx)


def test_a_softmax_in_place_is_told_by_its_own_name_and_refuses_what_it_cannot_write() -> None:
    x = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4, density=1)
    with profile(target="gc200") as report:
        bs_softmax_in_place(x)
    (run,) = report.runs
    assert (run.op, run.lacking) == ("popsparse.bs_softmax_in_place", "")
    for wrong, words in ((x.T, "x: got BlockSparseMatrix"), (None, "x: got NoneType")):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{words}"):
            bs_softmax_in_place(wrong)


def test_default_scale_is_the_least_that_holds_one() -> None:
    w = BlockSparseMatrix.from_dense([[4.0]], 1)
    for format, scale in ((F143, -7), (F152, -15), (E4M3, -8)):
        y = bs_softmax(w, out_dtype=format)
        assert (y.scale, y.to_dense()[0, 0]) == (scale, 1)
        assert format.max * 2.0 ** (scale - 1) < 1 <= format.max * 2.0**scale


@pytest.mark.parametrize("number", [np.int64(-7), np.array(-7), np.uint8(3), -7])
def test_a_scale_is_any_whole_number(number: Any) -> None:
    w = BlockSparseMatrix.from_dense([[4.0, 3.0]], 1, dtype="f143")
    for y in (bs_softmax(w, scale=number), bs_softmax_grad(w, w, scale=number)):
        assert type(y.scale) is int
        assert y.scale == number
        assert np.isfinite(y.to_dense()).all()


def test_the_gradient_has_the_scale_of_its_operand_unless_a_format_is_asked_for() -> None:
    w = BlockSparseMatrix.from_dense([[0.5]], 1, dtype="f143", scale=3)
    assert bs_softmax_grad(w, w).scale == 3
    assert bs_softmax_grad(w, w, out_dtype="f143").scale == params.default_scale(F143)


def test_one_scale_for_each_block_is_understood() -> None:
    w = BlockSparseMatrix.from_blocks(np.float32([1, 2, 3]), shape=(1, 3), row_indices=[0, 0, 0],
                                      column_indices=[0, 1, 2], dtype="f143", scale=[-4, 0, 1])
    assert bs_softmax(w, out_dtype="float32").equals(bs_softmax(w.astype("float32")))


def test_memory_is_counted_and_small() -> None:
    w = BlockSparseMatrix.from_mask(np.ones((4, 64), bool), 8, dtype="float16")
    memory_peak(reset=True)
    before = memory_in_use()
    bs_softmax(w)
    assert memory_in_use() == before
    row = 64 * 8 * 8 * 4
    assert memory_peak() - before <= settings.num_threads * 2 * row


@pytest.mark.parametrize("sides", [(127, 127), (7, 37), (16, 16), (1, 257)])
def test_accumulators_are_two_blocks(sides: tuple[int, int]) -> None:
    w = BlockSparseMatrix.from_mask(np.ones((2, 3), bool), sides)
    memory_peak(reset=True)
    before = memory_in_use()
    bs_softmax(w)
    whole_vectors = -(-sides[0] * sides[1] // 16) * 16
    assert memory_peak() - before <= settings.num_threads * 2 * 4 * whole_vectors


def halved(sums: Any) -> Any:
    """Add the later half of the first axis to the earlier until one is left."""
    while len(sums) > 1:
        half = (len(sums) + 1) // 2
        sums = np.concatenate([sums[: len(sums) - half] + sums[half:], sums[len(sums) - half : half]])
    return sums[0]


@pytest.mark.parametrize(("sides", "kept"), [((16, 16), 1), ((15, 15), 16), ((17, 16), 1), ((23, 13), 1), ((3, 5), 16),
                                             ((1, 1), 128), ((4, 8), 4), ((7, 2), 16)])
@pytest.mark.parametrize("count", [1, 5, 40, 150])
def test_sums_run_in_the_order_that_is_told(sides: tuple[int, int], kept: int, count: int) -> None:
    shape = (count, *sides)
    y, g = (random_operand(shape, FP32, seed) for seed in (1, 2))
    rows = [BlockSparseMatrix.from_blocks(x, shape=(sides[0], sides[1] * count), row_offsets=[0, count],
                                          column_indices=np.arange(count)) for x in (y, g)]
    sums = np.zeros((min(kept, count), *sides), np.float32)
    for i, product in enumerate(y * g):
        sums[i % kept] += product
    total = halved(halved(sums).T)
    assert_same_bits(bs_softmax_grad(*rows).blocks, y * (g - total[:, None]))


W = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 2)
OTHER = BlockSparseMatrix.from_mask(~np.eye(2, dtype=bool), 2)
FROZEN = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 2)
FROZEN._blocks.flags.writeable = False


@pytest.mark.parametrize("call", [
    lambda: bs_softmax(np.eye(2)), lambda: bs_softmax(W, mask="upper"), lambda: bs_softmax(W, mask=["none", "none"]),
    lambda: bs_softmax(W, mask=3), lambda: bs_softmax(W, mask=[3]), lambda: bs_softmax(W, out_dtype="float64"),
    lambda: bs_softmax(W, scale=1), lambda: bs_softmax(W, out_dtype="f143", scale=[1, 2]),
    lambda: bs_softmax(W, out_dtype="f143", scale=[]), lambda: bs_softmax_grad(W, W, out_dtype="f143", scale="auto"),
    lambda: bs_softmax(W, out_dtype="f143", scale=0.0),
    lambda: bs_softmax(W, out_dtype="f143", scale=199), lambda: bs_softmax(W, out=OTHER),
    lambda: bs_softmax(W, out=W.T), lambda: bs_softmax(W, out=np.zeros(3)), lambda: bs_softmax(W, out=FROZEN),
    lambda: bs_softmax(W, out=W.copy(), out_dtype="float16"), lambda: bs_softmax_grad(W, OTHER),
    lambda: bs_softmax(W, out=W.copy(), scale=0), lambda: bs_softmax_grad(W, W, out=W.copy(), out_dtype="f143"),
    lambda: bs_softmax_grad(W, None), lambda: bs_softmax_grad(None, W), lambda: bs_softmax_grad(W, W[0:2]),
])  # fmt: skip
def test_bad_arguments_are_refused(call: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^[a-z_]+: got"):
        call()


def test_a_result_over_part_of_its_operand_is_as_if_apart() -> None:
    for _ in range(3):
        shared = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
        x, out = BlockSparseMatrix(W.pattern, shared[:2]), BlockSparseMatrix(W.pattern, shared[1:])
        expected = bs_softmax(x).blocks
        bs_softmax(x, out=W.copy())  # the kind of call that is kept
        np.testing.assert_array_equal(bs_softmax(x, out=out).blocks, expected)


@pytest.mark.parametrize("name", ["float32", "float16", "f143"])
def test_out_may_come_with_its_own_format(name: str) -> None:
    x = W.astype(name)
    out = x.copy()
    assert bs_softmax(x, out=out, out_dtype=name) is out
    assert bs_softmax(x, out_dtype=name, scale=out.scale).equals(out)
    assert bs_softmax_grad(x, x, out=out, out_dtype=name) is out


def test_the_copy_for_an_out_that_overlaps_is_counted() -> None:
    pattern = BlockPattern((256, 256), 16, np.arange(17) * 16, np.tile(np.arange(16), 16))
    shared = np.zeros((257, 16, 16), np.float32)
    x, out, apart = (BlockSparseMatrix(pattern, blocks) for blocks in (shared[:-1], shared[1:], shared[:-1].copy()))
    for call in (bs_softmax, lambda w, out: bs_softmax_grad(w, w, out=out)):
        peaks = []
        for receiver in (apart, x, out):
            memory_peak(reset=True)
            before = memory_in_use()
            call(x, out=receiver)
            peaks.append(memory_peak() - before)
        assert peaks[0] == peaks[1]
        assert peaks[2] >= peaks[0] + out.blocks.nbytes


def test_a_read_only_out_is_refused_after_a_writeable_one() -> None:
    bs_softmax(W, out=W.copy())
    blocks = np.zeros((2, 2, 2), np.float32)
    blocks.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="read-only"):
        bs_softmax(W, out=BlockSparseMatrix(W.pattern, blocks))


def test_a_matrix_without_blocks() -> None:
    empty = BlockSparseMatrix.from_mask(np.zeros((2, 3), bool), 4)
    assert bs_softmax(empty).n_blocks == 0
    assert bs_softmax_grad(empty, empty).n_blocks == 0


@pytest.mark.parametrize("mask", [[np.array(["none"])], [["none"]], [None], np.array(["none"])])
def test_a_mask_that_is_no_string_is_refused(mask):
    with pytest.raises(InvalidArgumentError, match=r"^mask: "):
        bs_softmax(BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2), mask=mask)


def test_a_repeated_call_still_asks_for_one_pattern():
    """Of one kind are matrices of other patterns too, with as many blocks in each row."""

    def made(columns):
        mask = np.zeros((4, 6), bool)
        mask[np.arange(4), columns] = True
        return BlockSparseMatrix.from_mask(mask, 2)

    x, other = made([0, 1, 2, 3]), made([5, 4, 3, 2])
    twin = BlockSparseMatrix(BlockPattern(*x.pattern.__reduce__()[1]), x.blocks.copy())
    for _ in range(3):
        y = bs_softmax(x)
        bs_softmax_grad(y, x)
        bs_softmax_grad(y, twin)
        bs_softmax(x, out=BlockSparseMatrix(x.pattern, x.blocks.copy()))
        bs_softmax(x, out=twin)
        with pytest.raises(InvalidArgumentError, match=r"^grad: got "):
            bs_softmax_grad(y, other)
        with pytest.raises(InvalidArgumentError, match=r"^out: got "):
            bs_softmax(x, out=other)


def test_a_bad_format_of_the_result_is_refused_by_its_name() -> None:
    x = BlockSparseMatrix.from_dense(np.ones((4, 4), np.float32), 2)
    with pytest.raises(InvalidTypeError, match=r"^out_dtype: got 3"):
        bs_softmax(x, out_dtype=3)
