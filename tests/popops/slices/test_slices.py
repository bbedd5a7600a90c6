"""Slices by index: bad indices, those that come twice, threads, levels, memory, arrays that overlap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops, profile
from poplibs_py.config import thread_limit
from poplibs_py.errors import (
    InvalidArgumentError,
    InvalidIndexError,
    InvalidTypeError,
    MemoryLimitWarning,
    UnsupportedError,
)
from poplibs_py.formats import FORMATS, FP16
from poplibs_py.kernels import Selection, kernels, select
from poplibs_py.memo import forget
from poplibs_py.popops.slices.bound import element_at
from poplibs_py.popops.slices.lower import LEAST_ROOM, arena_bytes, lower, lower_bags, lower_check, lower_sequences
from poplibs_py.popops.slices.request import POLICIES
from poplibs_py.program import guard_arenas, memory_in_use, memory_peak
from poplibs_py.target import Target
from poplibs_py.testing import as_format

INTEGERS = [np.dtype(f"{kind}int{bits}") for kind in ("", "u") for bits in (8, 16, 32, 64)]
RNG = np.random.default_rng(5)


def numbers(*shape, fmt="float32"):
    return as_format(RNG.standard_normal(shape), fmt)


def fenced(shape, dtype=np.float32):
    """An array, and what surrounds it: what is written or read beyond it shows."""
    room = np.full(int(np.prod(shape)) + 512, 77, dtype)
    return room[256:-256].reshape(shape), room


def outside(room):
    return np.concatenate([room[:256], room[-256:]])


def summed(x, indices, updates, scale=1.0):
    """Sums in FP32 in the order of the indices, rounded once."""
    made = x.astype(np.float32)
    for index, update in zip(indices.tolist(), updates.astype(np.float32), strict=True):
        made[index] += np.float32(scale) * update
    return made.astype(x.dtype)


# Bad indices -----------------------------------------------------------------------------------------


def one_bad_call(rng, count):
    """A call with indices of any kind: nothing beyond the arrays is touched, and each is treated as its policy says."""
    entries, width = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    dtype, policy = INTEGERS[rng.integers(len(INTEGERS))], POLICIES[rng.integers(1, len(POLICIES))]
    table, around = fenced((entries, width))
    table[...] = rng.integers(1, 50, table.shape)
    limits = np.iinfo(dtype)
    indices = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    few = rng.integers(-2 if limits.min else 0, entries + 2, count)
    indices = np.where(rng.random(count) < 0.5, indices, few.astype(dtype))
    places = [element_at(index, entries, policy) for index in indices.tolist()]
    out, beyond = fenced((count, 1, width))
    before = out.copy()
    popops.multi_slice(table, indices, index_policy=policy, out=out)
    for k, place in enumerate(places):
        due = table[place] if place is not None else before[k, 0] if policy == "skip" else np.zeros(width)
        assert np.array_equal(out[k, 0], due)
    due = table.copy()
    for k, place in enumerate(places):
        if place is not None:
            due[place] += out[k, 0]
    popops.multi_update_add(table, out, indices, index_policy=policy, out=table)
    assert np.array_equal(table, due)
    assert (outside(around) == 77).all()
    assert (outside(beyond) == 77).all()


@given(st.integers(0, 2**32), st.integers(0, 20))
def test_bad_indices_never_lead_out_of_the_arrays(seed, count):
    one_bad_call(np.random.default_rng(seed), count)


@pytest.mark.nightly
def test_a_million_drawn_indices_never_lead_out_of_the_arrays():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        one_bad_call(rng, 500)


def test_an_index_into_nothing_is_out_of_range():
    for call in (popops.gather, popops.multi_slice):
        for policy in ("raise", "clip", "wrap", "poplibs"):
            with pytest.raises(InvalidIndexError, match=r"^indices: got 1 lookups; allowed: none"):
                call(np.zeros((0, 5), np.float32), [0], index_policy=policy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_first_bad_index_is_named_and_nothing_is_written(dtype):
    bad = -1 if dtype.kind == "i" else 100
    indices = np.array([[0, 2], [3, 1], [bad, 9]], dtype)
    table, out = numbers(4, 3), np.full((3, 2, 3), 7, np.float32)
    words = rf"^indices: got {bad} at \[2, 0\]; allowed: 0 to 3"
    with pytest.raises(InvalidIndexError, match=words):
        popops.gather(table, indices, out=out)
    assert (out == 7).all()
    before = table.copy()
    with pytest.raises(IndexError, match=words):
        popops.scatter(table, indices, out, out=table)
    assert np.array_equal(table, before)
    with pytest.raises(InvalidIndexError, match=r"^indices: got 4 at \[0, 1\]; allowed: 0 to 2"):
        popops.gather(table, np.array([[1, 2], [4, 0]]).T, index_vector_dim=0, slice_sizes=[1, 1], offset_dims=[],
                      collapsed_slice_dims=[0, 1], start_index_map=[1, 0], index_policy="raise")


def test_indices_that_change_meanwhile_are_met_by_a_limit_all_the_same():
    """The program alone, without the check before: what "raise" leaves to it."""
    table, around = fenced((5, 4))
    indices = np.array([0, 2**40, -3], np.int64)
    out = np.empty((3, 4), np.float32)
    with profile() as report:
        popops.gather(table, np.array([0, 1, 2]), out=out)
    report.runs[0].plan.executable(table, indices, out)
    assert (outside(around) == 77).all()
    assert np.array_equal(out[0], table[0])


@pytest.mark.parametrize("integers", INTEGERS[2:4] + INTEGERS[6:], ids=str)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32, 64, 128])
def test_short_rows_are_read_by_indices_one_after_another(width, integers):
    for entries in (1, 200, 1 << 22 >> width.bit_length() - 1):  # what a core's cache does not hold, too
        table, out = RNG.integers(0, 255, (entries, width), np.uint8), fenced((75, width), np.uint8)
        indices = RNG.integers(0, entries, 75).astype(integers)
        popops.gather(table, indices, out=out[0])
        np.testing.assert_array_equal(out[0], table[indices])
        assert (outside(out[1]) == 77).all()
        wide = np.full((75, width + 3), 77, np.uint8)
        popops.gather(table, indices, out=wide[:, :width])
        np.testing.assert_array_equal(wide[:, :width], table[indices])
        assert (wide[:, width:] == 77).all()
        for at in (0, 5, 8, 74):
            wrong = indices.copy()
            wrong[at] = np.iinfo(integers).max if at % 2 else entries if integers.kind == "u" else -1
            before = out[0].copy()
            with pytest.raises(IndexError, match="indices"):
                popops.gather(table, wrong, out=out[0])
            with pytest.raises(IndexError, match="indices"):
                popops.gather(table, wrong)
            np.testing.assert_array_equal(out[0], before)
            made = popops.gather(table, wrong, index_policy="zero")
            np.testing.assert_array_equal(np.delete(made, at, 0), np.delete(table[indices], at, 0))
            assert (made[at] == 0).all()
            kept = popops.gather(table, wrong, index_policy="skip", out=np.full((75, width), 7, np.uint8))
            assert (kept[at] == 7).all()


@pytest.mark.parametrize("fmt", ["float32", "float16", "int32"])
@pytest.mark.parametrize("width", [(), (3,)], ids=str)
def test_updates_with_a_bad_index_change_nothing(width, fmt):
    indices = RNG.integers(0, 50, 900)
    updates = (RNG.standard_normal((900, *width)) * 9).astype(fmt)
    lying = np.zeros((50, *width), fmt), np.zeros((2 * 50, *width), fmt)[::-2]
    for x in lying:
        for calls in (lambda x, i, **how: popops.multi_update_add(x, updates, i, **how),
                      lambda x, i, **how: popops.scatter(x, i, updates, **how)):
            for wrong in (-1, 50, 2**40):
                bad = indices.copy()
                bad[700] = wrong
                x[:] = before = (RNG.standard_normal(x.shape) * 9).astype(fmt)
                for how in ({}, {"out": x}, {"out": np.empty_like(x)}):
                    with pytest.raises(InvalidIndexError, match=rf"^indices: got {wrong} at \[700\]"):
                        calls(x, bad, **how)
                    np.testing.assert_array_equal(x, before)
                for threads in (1, 3):
                    with thread_limit(threads):
                        due = calls(x, indices)
                        x[:] = before
                        assert calls(x, indices, out=x) is x
                        np.testing.assert_array_equal(x, due)
                        x[:] = before


# Order, threads, levels, memory ----------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_sums_are_made_in_order_and_rounded_once(fmt):
    x, updates = numbers(7, 5, fmt=fmt), numbers(200, 5, fmt=fmt)
    indices = RNG.integers(0, 7, 200)
    np.testing.assert_array_equal(popops.multi_update_add(x, updates, indices, 0.25), summed(x, indices, updates, 0.25))


CALLS = {
    "gather": lambda x, u, i: popops.gather(x, i),
    "numbers": lambda x, u, i: popops.gather(x.ravel()[:600].copy(), i),
    "added numbers": lambda x, u, i: popops.multi_update_add(x.ravel()[:600].copy(), u.ravel()[:4000].copy(), i),
    "columns": lambda x, u, i: popops.gather(x, i % x.shape[1], 1),
    "set": lambda x, u, i: popops.scatter(x, i, u),
    "add": lambda x, u, i: popops.multi_update_add(x, u, i, -2),
    "function": lambda x, u, i: popops.scatter(x, i, u, operation=lambda old, new: old * 3 - new),
    "mul": lambda x, u, i: popops.multi_update_mul(x, u, i),
    "max": lambda x, u, i: popops.multi_update_max(x, u, i),
    "bags": lambda x, u, i: popops.embedding_bag(x.astype(np.float32), i.reshape(-1, 40)),
    "means": lambda x, u, i: popops.embedding_bag(x.astype(np.float16), i, np.arange(0, 4000, 37), mode="mean"),
    "gradient": lambda x, u, i: popops.embedding_gradient(u.astype(np.float16), i, 600).rows,
    "sequences": lambda x, u, i: popops.sequence_slice(u, x, i[:50] % 7, i[50:100], i[100:150] % 590),
    "groups": lambda x, u, i: popops.grouped_multi_update_add(
        x.reshape(2, -1, x.shape[1]), u.reshape(2, -1, x.shape[1]), i.reshape(2, -1) // 2),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fmt", ["float32", "float16", "int32"])
def test_threads_and_levels_change_nothing(name, fmt, monkeypatch):
    shape = (600, 72)
    x, u = ((numbers(n, 72) * 9).astype(fmt) for n in (shape[0], 4000))
    indices = (RNG.standard_exponential(4000) * 90).astype(np.uint32) % 600
    due = CALLS[name](x, u, indices)
    for threads in (1, 2, 5):
        with thread_limit(threads):
            assert np.array_equal(CALLS[name](x, u, indices), due)

    def portable(family, op, formats):
        found = [k for k in kernels(family) if (k.level, k.op, k.formats) == ("portable", op, formats)]
        return Selection(found[0], ()) if found else select(family, op, formats)

    monkeypatch.setattr("poplibs_py.popops.slices.lower.select", portable)
    for place, function in {"slices.lower.lower": lower, "slices.function.lower": lower,
                            "slices.request.lower_check": lower_check, "slices.lookups.lower": lower,
                            "slices.lookups.lower_bags": lower_bags,
                            "slices.rows.lower_sequences": lower_sequences}.items():
        monkeypatch.setattr(f"poplibs_py.popops.{place}", function.__wrapped__)
    forget()
    assert np.array_equal(CALLS[name](x, u, indices), due)
    forget()


@pytest.mark.parametrize("fmt", ["float32", "float16", "int32"])
@pytest.mark.parametrize("places", [1, 7, 900])
def test_a_function_updates_in_order_and_is_rounded_after_each(fmt, places):
    """Look-ups of several turns; with windows that overlap, and where a limit makes the turns short."""
    x, u = ((numbers(n, 6) * 9).astype(fmt) for n in (900, 3000))
    indices, wide = RNG.integers(-places, places, 3000), np.dtype("int32" if fmt == "int32" else "float32")

    factor = 2 if fmt == "int32" else 0.5

    def function(old, new):
        return new - old * factor

    made, windows = x.copy(), x.ravel()[:60].copy()
    for index, row in zip(indices, u, strict=True):
        if index >= 0:
            made[index] = function(made[index].astype(wide), row.astype(wide)).astype(fmt)
            at = slice(index % 50, index % 50 + 6)
            windows[at] = function(windows[at].astype(wide), row.astype(wide)).astype(fmt)
    for limit in (None, 1e-3):
        got = popops.scatter(x, indices, u, operation=function, index_policy="skip", available_memory_proportion=limit)
        np.testing.assert_array_equal(got, made)
    got = popops.scatter(x.ravel()[:60], np.where(indices < 0, -1, indices % 50), u, operation=function,
                         index_policy="skip", index_vector_dim=1, update_window_dims=[1],
                         scatter_dims_to_operand_dims=[0])
    np.testing.assert_array_equal(got, windows)
    before = x.copy()
    with pytest.raises(InvalidIndexError, match=r"^indices: got"):
        popops.scatter(x, indices, u, out=x, operation=function)
    assert np.array_equal(x, before)
    with pytest.raises(UnsupportedError, match=r"no vertex for popops\.scatter with a function"):
        popops.scatter(x, indices, u, operation=function, target="gc200")


@pytest.mark.parametrize("columns", [16, 72, 256])
@pytest.mark.parametrize("entries", [40, 9000])
def test_rows_are_prefetched_and_taken_in_their_turn(entries, columns):
    """Look-ups that are resolved in several turns, of tables that a core holds and that it does not."""
    x, indices = numbers(entries, columns), RNG.integers(0, entries, 1200)
    assert np.array_equal(popops.gather(x, indices), x[indices])
    ends = np.r_[0, np.sort(RNG.integers(0, 900, 7)), indices.size]  # bags of a few, of none, of several turns
    none = np.zeros((1, columns), np.float32)
    sums = [np.add.accumulate(np.r_[none, x[indices[a:b]]])[-1] for a, b in pairwise(ends)]
    assert np.array_equal(popops.embedding_bag(x, indices, ends[:-1]), np.array(sums))
    updates = numbers(indices.size, columns)
    made = x.copy()
    made[indices] = updates
    assert np.array_equal(popops.scatter(x, indices, updates), made)
    assert np.array_equal(popops.multi_update_add(x, updates, indices), summed(x, indices, updates))


@pytest.mark.parametrize("shift", [0, 5])
def test_results_that_pass_the_caches_are_the_same(shift):
    x, indices = numbers(3000, 256), RNG.integers(0, 3000, 17000)
    room = np.full(indices.size * 256 + 16, 77, np.float32)
    out = room[shift:shift + indices.size * 256].reshape(-1, 256)
    popops.gather(x, indices, out=out)
    assert np.array_equal(out, x[indices])
    assert (np.r_[room[:shift], room[shift + out.size:]] == 77).all()


@pytest.mark.parametrize("shift", [0, 4])
def test_rows_that_replace_others_past_the_caches_are_those_set_last(shift):
    """Of a table of 32 MiB and more; rows that are whole lines of the cache and rows between lines."""
    entries, columns = 70_000, 128
    room = np.zeros(entries * columns + 32, np.float32)
    begin = -room.ctypes.data % 64 // 4 + shift
    table = room[begin:begin + entries * columns].reshape(entries, columns)
    indices = RNG.integers(-50, 3000, 9000)  # some are bad, most come more than once
    updates = numbers(indices.size, columns)
    popops.scatter(table, indices, updates, out=table, index_policy="skip")
    made = np.zeros((3000, columns), np.float32)
    for index, row in zip(indices, updates, strict=True):
        if index >= 0:
            made[index] = row
    assert np.array_equal(table[:3000], made)
    assert not np.r_[room[:begin], table[3000:].ravel(), room[begin + table.size:]].any()


@pytest.mark.parametrize("skew", [1, 600])
def test_temporaries_keep_to_the_limit_and_change_nothing(skew):
    x, u = numbers(600, 40, fmt=FP16), numbers(5000, 40, fmt=FP16)
    indices = RNG.integers(0, 600, 5000) // skew
    due, host = popops.multi_update_add(x, u, indices), Target.host()
    assert np.array_equal(due, summed(x, indices, u))
    for room in (LEAST_ROOM, 1000):
        proportion = (arena_bytes(room) + 64 + 8) / host.bytes_per_tile
        out = x.copy()
        guard_arenas(True)
        memory_peak(reset=True)
        before = memory_in_use()
        popops.multi_update_add(out, u, indices, out=out, available_memory_proportion=proportion)
        guard_arenas(False)
        with profile() as report:
            popops.multi_update_add(x, u, indices, available_memory_proportion=proportion)
        plan = report.runs[0].plan
        assert memory_peak() - before <= 2 * proportion * host.bytes_per_tile * plan.threads
        assert plan.executable.temporary_bytes <= proportion * host.bytes_per_tile * plan.threads
        assert np.array_equal(out, due)
    with pytest.warns(MemoryLimitWarning, match="available_memory_proportion"):
        got = popops.multi_update_add(x, u, indices, available_memory_proportion=1e-4)
    assert np.array_equal(got, due)


# Bags, sequences, scalars ----------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_bad_rows_of_sequences_and_bad_labels_never_lead_out_of_the_arrays(seed):
    rng = np.random.default_rng(seed)
    rows, width, count = (int(n) for n in rng.integers(1, 7, 3))
    (x, of_x), (y, of_y) = fenced((rows, width)), fenced((rows + 1, width))
    x[...] = rng.integers(1, 50, x.shape)
    offsets = [np.where(rng.random(count) < 0.5, rng.integers(-3, 9, count),
                        rng.integers(-2**63, 2**63 - 1, count, endpoint=True)) for _ in range(2)]
    for policy in POLICIES[1:]:
        popops.sequence_slice(x, y, rng.integers(0, rows + 1, count), *offsets, index_policy=policy, out=y)
        labels = rng.integers(-2**31, 2**31 - 1, rows, np.int32)
        popops.select_scalar_from_rows(x, labels, index_policy=policy)
        assert (popops.embedding_bag(x, labels[None], index_policy=policy) < 50 * rows).all()
        popops.update_scalar_in_rows(x, labels, index_policy=policy, out=x)
        x[np.isnan(x)] = 1
        assert all((outside(around) == 77).all() for around in (of_x, of_y))


def test_ends_of_bags_are_checked_when_a_call_is_kept_too():
    x, indices = numbers(5, 3), np.array([0, 1, 2, 3])
    for begins in ([0, 2], [0, 4], [0, 0]):
        got = popops.embedding_bag(x, indices, np.array(begins))
        assert np.array_equal(got, [x[begins[0]:begins[1]].sum(0), x[begins[1]:4].sum(0)])
    for begins in ([2, 0], [0, 5], [-1, 2], [1, 4]):
        with pytest.raises(InvalidArgumentError, match=r"^offsets: got .*: ascending numbers from 0, the first, to 4"):
            popops.embedding_bag(x, indices, np.array(begins))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("columns", [1, 7, 64, 100])
def test_bags_of_any_format_are_sums_in_order(fmt, columns):
    x, indices = numbers(50, columns, fmt=fmt), RNG.integers(0, 50, (9, 30))
    wide, due = popops.cast(x, "float32"), np.zeros((9, columns), np.float32)
    for k in range(30):
        due += wide[indices[:, k]]
    np.testing.assert_array_equal(popops.embedding_bag(x, indices, out_dtype="float32"), due)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("entries", [100, 1 << 20])
@pytest.mark.parametrize("policy", ["clip", "skip", "wrap", "zero"])
def test_single_numbers_are_added_in_order(dtype, entries, policy):
    x, updates = np.zeros(entries, np.float32), numbers(3000)
    indices = RNG.integers(0, min(entries, np.iinfo(dtype).max), 3000).astype(dtype)
    indices[2000] = np.iinfo(dtype).max
    places = [element_at(int(i), entries, policy) for i in indices]
    due = x.copy()
    for place, update in zip(places, updates, strict=True):
        if isinstance(place, int):
            due[place] += np.float32(-2) * update
    for threads in (1, 2):
        with thread_limit(threads):
            got = popops.multi_update_add(x, updates, indices, -2, index_policy=policy)
            np.testing.assert_array_equal(got, due)


def test_a_weighted_bag_is_its_rows_times_their_weights():
    x, weights = numbers(9, 700, fmt=FP16), numbers(2, 3)
    indices = np.array([[8, 0, 8], [1, 2, 3]])
    due = np.zeros((2, 700), np.float32)
    for k in range(3):
        due += weights[:, k, None] * x[indices[:, k]].astype(np.float32)
    np.testing.assert_array_equal(popops.embedding_bag(x, indices, weights=weights, out_dtype="float32"), due)
    with pytest.raises(InvalidArgumentError, match=r"^mode: got max"):
        popops.embedding_bag(x, indices, weights=weights, mode="max")


def test_what_indices_are_like():
    found = popops.index_statistics(np.array([[5, 2], [2, 9]], np.uint8), 6)
    assert found == (4, 1, 2, 2, 9, 2, False, "uniform")
    assert popops.index_statistics([], 6)[:5] == (0, 0, 0, None, None)


# Arrays ----------------------------------------------------------------------------------------------


def test_out_may_be_any_array_that_an_operand_shares_memory_with():
    x, indices = numbers(8, 6), np.array([7, 1, 1, 0])
    due, updated = x[indices], summed(x, indices, x[:4])
    big = x.copy()
    popops.gather(big, indices, out=big[2:6])
    assert np.array_equal(big[2:6], due)
    big = x.copy()
    popops.multi_update_add(big, big[:4], indices, out=big)
    assert np.array_equal(big, updated)
    columns = np.asfortranarray(x)
    got = popops.multi_update_add(columns, x[:4], indices, out=columns)
    assert got is columns
    assert np.array_equal(got, updated)
    shifted = np.zeros((9, 6), np.float32)
    shifted[:8] = x
    popops.multi_update_add(shifted[:8], x[:4], indices, out=shifted[1:])
    assert np.array_equal(shifted[1:], updated)


def test_an_update_in_place_touches_only_its_rows():
    x = numbers(5, 4, fmt="float16")
    x.view(np.uint16)[0] = 0x7D01  # a signalling NaN, which decoding would change
    x.setflags(write=True)
    before = x.copy().view(np.uint16)
    popops.multi_update_add(x, np.ones((2, 4), np.float16), [3, 3], out=x)
    assert np.array_equal(x.view(np.uint16)[[0, 1, 2, 4]], before[[0, 1, 2, 4]])


def test_calls_that_are_kept_read_their_own_indices():
    x = numbers(50, 8)
    for _ in range(3):
        indices = RNG.integers(0, 50, 9)
        assert np.array_equal(popops.gather(x, indices), x[indices])
        own = x.copy()
        popops.multi_update_add(own, x[:9], indices, out=own)
        assert np.array_equal(own, summed(x, indices, x[:9]))
        apart = np.empty_like(x)
        popops.multi_update_add(x, x[:9], indices, out=apart)
        assert np.array_equal(apart, own)


@pytest.mark.parametrize(("call", "message"), [
    (lambda x: popops.gather(x, [0.5]), "^indices: got dtype float64"),
    (lambda x: popops.gather(x, np.array([True])), "^indices: got dtype bool"),
    (lambda x: popops.gather(x.astype(np.float64), [0]), r'^x: got dtype float64.*astype\("float32"\)'),
    (lambda x: popops.gather(x, [0], 2), "^axis: got 2"),
    (lambda x: popops.gather(x, [0], index_policy="mirror"), "^index_policy: got mirror"),
    (lambda x: popops.gather(x, [0], out=np.empty((1, 3), np.float16)), "^out: got dtype float16"),
    (lambda x: popops.gather(x, [0], offset_dims=[1]), "^offset_dims: got"),
    (lambda x: popops.gather(x, [0], index_vector_dim=1, slice_sizes=[2, 3], collapsed_slice_dims=[0],
                             offset_dims=[1], start_index_map=[0]), "^collapsed_slice_dims: got"),
    (lambda x: popops.gather(x[:0], [0], index_policy="wrap"), "^indices: got 1 lookups"),
    (lambda x: popops.scatter(x, [0], x[0]), "^updates: got shape"),
    (lambda x: popops.scatter(x, [0], x[:1].astype(np.int32), operation="add"), "^updates: got dtype int32"),
    (lambda x: popops.scatter(x > 0, [0], x[:1] > 0, operation="add"), "^x: got dtype bool"),
    (lambda x: popops.scatter(x, [0], x[:1], operation="sub"), "^operation: got sub"),
    (lambda x: popops.scatter(x, [0], x[:1], operation=lambda a, b: (a, b)), "^operation: got a function of 2"),
    (lambda x: popops.scatter(x, [0], x[:1], operation=lambda a, b: a > b), "^operation: got a function whose result"),
    (lambda x: popops.scatter(x.astype("i4"), [0], x[:1].astype("i4"), operation=lambda a, b: a * 0.5 + b),
     "^operation: got a function whose result is float32; allowed: one of int32"),
    (lambda x: popops.scatter(x, [0], x[:1], operation=lambda a, b: a + b, scale=2), "^scale: got 2"),
    (lambda x: popops.multi_update_add(x, x[:1], [0], float("nan")), "^scale: got nan"),
    (lambda x: popops.multi_slice(x, [[0, 1]]), "^indices: got shape"),
    (lambda x: popops.multi_slice(np.ones((1,) * 64, np.int8), [0]), "^indices: got what makes a result of 65 axes"),
    (lambda x: popops.dynamic_slice(x, [0], 0, 9), "^sizes: got 9"),
    (lambda x: popops.dynamic_slice(x, [0, 0], (0, -2), (1, 1)), "^axes: got"),
    (lambda x: popops.dynamic_update(x, x[:, :2], [0], 0), "^updates: got shape"),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(call, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=message):
        call(numbers(4, 3))


@pytest.mark.parametrize("call", [
    lambda x, i: popops.gather(x, i), lambda x, i: popops.multi_slice(x, i, out=np.empty((1, 1, 0), np.float32)),
    lambda x, i: popops.multi_update(x, x[:1], i), lambda x, i: popops.multi_update_add(x, x[:1], i, out=x),
    lambda x, i: popops.scatter(x, i, x[:1]), lambda x, i: popops.embedding_bag(x, [i]),
    lambda x, i: popops.embedding_bag(x, i, [0]), lambda x, i: popops.dynamic_slice(x, i, 0, 1),
    lambda x, i: popops.dynamic_slice(numbers(4, 2), i, 0, 0),
])  # fmt: skip
def test_indices_of_empty_slices_are_looked_at(call):
    x = np.empty((4, 0), np.float32)
    assert call(x, [3]).size == 0
    for _ in range(2):
        with pytest.raises(InvalidIndexError, match=r"^(indices|offsets): got 9"):
            call(x, [9])


def test_of_nothing():
    for target in (None, "gc200"):
        made = popops.embedding_gradient(numbers(3, 0), [1, 2, 1], 5, target=target)
        assert (made.indices.tolist(), made.rows.shape) == ([1, 2], (2, 0))
    x = numbers(4, 3)
    assert popops.gather(x, []).shape == (0, 3)
    assert popops.gather(x[:, :0], [3]).shape == (1, 0)
    assert popops.gather(x[:0], [0], index_policy="zero").tolist() == [[0, 0, 0]]
    assert np.array_equal(popops.multi_update_add(x, x[:0], []), x)
    assert popops.dynamic_slice(x, [1], 0, 0).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, np.float32])
def test_updates_given_as_lists_become_the_table_s_type(dtype: type) -> None:
    made = popops.scatter(np.array([1, 2], dtype), [0], [5])
    assert made.dtype == dtype
    assert made.tolist() == [5, 2]
    with pytest.raises(InvalidTypeError, match=r"^updates: got dtype float32; allowed: int32"):
        popops.scatter(np.int32([1, 2]), [0], [5.5])
    with pytest.raises(InvalidArgumentError, match=r"^updates: got 500; allowed: .*uint8"):
        popops.scatter(np.uint8([1, 2]), [0], [500])
