"""The partitioner: every pattern that fits comes back, words say what vertices read, spills and refusals."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import CapacityError, CapacityWarning, InvalidArgumentError, InvalidTypeError
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, random_matrix, random_pattern
from poplibs_py.popsparse.fully_connected import FullyConnectedParams, plan_fully_connected
from poplibs_py.popsparse.partitioner import BucketLayout, Partitioner, SparsityData
from poplibs_py.popsparse.partitioner._buckets import sorted_as_gcc
from poplibs_py.target import Target


def cut(draw: st.DrawFn, extent: int) -> tuple[int, ...]:
    """Where the parts of an axis begin."""
    return (0, *sorted(draw(st.sets(st.integers(1, extent - 1), max_size=3)))) if extent > 1 else (0,)


@st.composite
def layouts(draw: st.DrawFn) -> BucketLayout:
    side = draw(st.sampled_from([1, 1, 4]))
    x, y = draw(st.integers(1, 24)), draw(st.integers(1, 12))
    grain = draw(st.sampled_from([1, 2, 4]))
    z = grain * draw(st.integers(1, 6))
    starts = [tuple(s * side for s in cut(draw, extent)) for extent in (x, y)]
    flags = draw(st.tuples(*[st.booleans()] * 6))
    room = draw(st.integers(1, 40)) * side**2
    kind = draw(st.sampled_from(["half", "float"]))
    return BucketLayout((x * side, y * side, z), *starts, cut(draw, z), room, 400, 600, side, grain, kind, *flags)


def widened(layout: BucketLayout, values: int, words: int) -> BucketLayout:
    """A layout with more room, where nothing is forced to spill."""
    return dataclasses.replace(layout, value_room=values, meta_room=words, grad_a_meta_room=2 * words,
                               force_bucket_spills=False)


def matrix(layout: BucketLayout, density: float, seed: int) -> BlockSparseMatrix:
    pattern = random_pattern(layout.shape[0], layout.shape[1], layout.side, density=density, seed=seed)
    return random_matrix(pattern, dtype="float32", seed=seed)


@given(layout=layouts(), density=st.floats(0, 1), seed=st.integers(0, 99))
def test_what_fits_comes_back(layout: BucketLayout, density: float, seed: int) -> None:
    w = matrix(layout, density, seed)
    try:
        data = Partitioner(layout).create_sparsity_data(w)
    except CapacityError:
        assert w.n_blocks > 0
        return
    assert data.to_matrix().equals(w)
    again = SparsityData.of_words(layout, data.meta_words, data.values)
    for kind, made in (("coo", again.to_coo()), ("csr", again.to_csr()), ("csc", again.to_csc())):
        want = w.to_host(kind)
        for part in ("nz_values", "row_indices", "column_indices"):
            assert np.array_equal(getattr(made, part), getattr(want, part))


@given(layout=layouts(), seed=st.integers(0, 99))
def test_what_has_room_for_all_in_each_bucket_never_overflows(layout: BucketLayout, seed: int) -> None:
    w = matrix(layout, 1, seed)
    roomy = widened(layout, w.nnz, 5000)
    assert Partitioner(roomy).create_sparsity_data(w).to_matrix().equals(w)


# What the words say --------------------------------------------------------------------------------


def groups_of(words: list[int]) -> Iterator[tuple[int, list[int]]]:
    at = 0
    while words[at]:
        yield at, words[at:at + words[at + 4]]
        at += words[at + 4]


def check_workers(group: list[int], layout: BucketLayout, updates: bool) -> None:
    """Workers of a sub-group of elements cover each row and column of z once, and find their first row."""
    first, count, rows, columns = group[7], group[8], group[6] + 1, group[5]
    places, at = [], first
    for _ in range(rows):
        places.append(at)
        at += 2 + group[at + 1] * (len(group) - first - 2 * rows) // group[3]
    met = np.zeros((rows, columns), int)
    for i in range(count):
        entry = 9 + 5 * i
        sparse, wide, offset, more, to_first = group[entry:entry + 5]
        row = places.index(entry + to_first)
        met[row:row + more + 1, offset:offset + wide] += 1
        before = sum(group[place + 1] for place in places[:row])
        assert sparse in (0, before)
        assert wide % layout.z_grain == offset % layout.z_grain == 0
    assert (met == 1).all()
    if updates:
        check_updates(group, 9 + 5 * count + 1, group[9 + 5 * count], places, 1)


def check_updates(group: list[int], begin: int, workers: int, places: list[int], area: int, more: int = 0) -> None:
    """Workers of the gradient of the weights share the blocks, and find the row of their first one."""
    shares = []
    for i in range(workers):
        entry = begin + 4 * i
        sparse, to_row, within, count = group[entry:entry + 4]
        row = places.index(entry + to_row)
        before = sum(group[place + 1] + more for place in places[:row])
        assert sparse == (before + within) * area
        assert within < group[places[row] + 1] + more
        shares.append((before + within, before + within + count))
    shares.sort()
    assert [begin for begin, _ in shares] == [0, *(end for _, end in shares[:-1])]
    assert shares[-1][1] * area == group[3]


@given(layout=layouts(), density=st.floats(0.05, 0.6), seed=st.integers(0, 99))
def test_words_are_those_that_vertices_follow(layout: BucketLayout, density: float, seed: int) -> None:
    roomy = widened(layout, 300 * layout.side**2, 2000)
    w = matrix(roomy, density, seed)
    data = Partitioner(roomy).create_sparsity_data(w)
    y_parts = roomy.parts[1]
    for bucket in data.meta_info.tolist():
        for _, group in groups_of(bucket):
            assert group[0] == group[1] * y_parts + group[2] + 1
            if roomy.side == 1:
                check_workers(group, roomy, roomy.grad_w)
            else:
                places, at = [], 7 + 4 * group[6]
                for _ in range(group[5] + 1):
                    places.append(at)
                    at += 3 + group[at + 1]
                assert at == len(group)
                assert (group[6] > 0) == roomy.grad_w
                if group[6]:
                    check_updates(group, 7, group[6], places, roomy.side**2, 1)
        if roomy.own_grad_a_room and roomy.side == 1:
            own = list(groups_of(bucket[:roomy.meta_room]))
            turned = list(groups_of(bucket[roomy.meta_room:]))
            assert len(own) == len(turned)
            for (_, group), (_, other) in zip(own, turned, strict=True):
                check_workers(other, roomy, False)
                assert sorted(elements(group, roomy)) == sorted(
                    (column, row, place) for row, column, place in elements(other, roomy, True))


def elements(group: list[int], layout: BucketLayout, turned: bool = False) -> Iterator[tuple[int, int, int]]:
    """Row, column and place of each element of a sub-group."""
    at, unit = group[7], 4 if layout.data_type == "float" else 2
    place = 0
    for _ in range(group[6] + 1):
        row, count = group[at:at + 2]
        at += 2
        for _ in range(count):
            if turned:
                yield row, group[at + 1] // (unit * group[5]), group[at] // unit
                at += 2
            else:
                yield row, group[at] // (unit * group[5]), place
                at, place = at + 1, place + 1


# Spills --------------------------------------------------------------------------------------------


def test_forced_spills_leave_nothing_at_home() -> None:
    layout = BucketLayout((16, 16, 4), (0, 8), (0, 8), (0,), 80, 300, z_grain=4, force_bucket_spills=True)
    w = matrix(layout, 0.3, 1)
    data = Partitioner(layout).create_sparsity_data(w)
    for i, bucket in enumerate(data.meta_info.tolist()):
        assert all(group[0] != i + 1 for _, group in groups_of(bucket))
    assert data.overflow[0] == 2
    assert data.to_matrix().equals(w)


def test_a_pattern_that_does_not_fit_is_refused_by_how_much_and_planned_anew() -> None:
    plan = plan_fully_connected(FullyConnectedParams(128, 128, 16, 0.1, 4), target=Target.small(16))
    w = random_matrix(random_pattern(128, 128, 4, density=0.3, seed=1), dtype="float16", seed=2)
    with pytest.raises(CapacityError, match=r"find no room: .*metaInfoBucketOversizeProportion=.* would do"):
        Partitioner(plan).create_sparsity_data(w)
    with pytest.warns(CapacityWarning, match="planned anew"):
        data = Partitioner(plan).create_sparsity_data(w, capacity="grow")
    assert data.to_matrix().equals(w)
    assert data.layout.value_room > plan.layout.value_room
    alone = BucketLayout((4, 4, 4), (0,), (0,), (0,), 2, 80)
    with pytest.raises(CapacityError, match="up to"):
        Partitioner(alone).create_sparsity_data(matrix(alone, 1, 1), capacity="grow")


def test_blocks_that_no_vertex_takes_are_cut_and_joined() -> None:
    plan = plan_fully_connected(FullyConnectedParams(64, 64, 8, 0.3, 16, "float"), target=Target.small(8))
    assert plan.candidate.side == 8
    w = random_matrix(random_pattern(64, 64, 16, density=0.25, seed=1), dtype="float32", seed=2)
    data = Partitioner(plan).create_sparsity_data(w)
    assert data.to_matrix().equals(w)
    turned = w.T
    assert np.array_equal(Partitioner(plan).create_sparsity_data(turned).to_matrix().to_dense(), turned.to_dense())
    assert Partitioner(plan).create_sparsity_data(w.to_host("csc")).to_matrix().equals(w)


# Sorting -------------------------------------------------------------------------------------------


@given(keys=st.lists(st.integers(0, 5), max_size=200))
def test_sorted_order_is_one_and_of_few_the_stable_one(keys: list[int]) -> None:
    order = sorted_as_gcc(np.array(keys, np.int64))
    assert sorted(order) == list(range(len(keys)))
    assert [keys[i] for i in order] == sorted(keys, reverse=True)
    if len(keys) <= 16:
        assert order == sorted(range(len(keys)), key=lambda i: -keys[i])


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_sorted_order_is_that_of_gcc(tmp_path: Path) -> None:
    source = tmp_path / "sort.cpp"
    source.write_text("""
        #include <algorithm>
        #include <cstdio>
        #include <utility>
        #include <vector>
        int main() {
            int n;
            while (std::scanf("%d", &n) == 1) {
                std::vector<std::pair<long, int>> v(n);
                for (int i = 0; i < n; ++i) { std::scanf("%ld", &v[i].first); v[i].second = i; }
                std::sort(v.begin(), v.end(), [](auto &a, auto &b) { return a.first > b.first; });
                for (auto &p : v) std::printf("%d ", p.second);
                std::printf("\\n");
            }
        }
    """.replace("\\\\", "\\"))
    program = tmp_path / "sort"
    subprocess.run(["g++", "-O1", "-std=c++17", str(source), "-o", str(program)], check=True)
    rng = np.random.default_rng(5)
    cases = [rng.integers(0, high, n) for n in (0, 1, 15, 16, 17, 40, 300, 2000) for high in (1, 3, 1000)]
    half = 400
    killer = np.empty(2 * half, np.int64)  # median-of-three keeps to one side
    killer[:half] = [i if i % 2 else half + i - 1 for i in range(1, half + 1)]
    killer[half:] = 2 * np.arange(1, half + 1)
    cases += [killer, -killer, np.arange(500), -np.arange(500)]
    text = "".join(f"{len(case)} {' '.join(map(str, case))}\n" for case in cases)
    said = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True).stdout
    wanted = [list(map(int, line.split())) for line in said.split("\n")]
    for case, want in zip(cases, wanted, strict=False):
        assert sorted_as_gcc(np.ascontiguousarray(case, np.int64)) == want


# Refusals ------------------------------------------------------------------------------------------


def test_layouts_and_matrices_that_do_not_fit_each_other_are_named() -> None:
    good: dict[str, Any] = {"shape": (8, 8, 4), "x_starts": (0, 4), "y_starts": (0,), "z_starts": (0,),
                            "value_room": 16, "meta_room": 100}
    layout = BucketLayout(**good)
    for wrong in ({"x_starts": (4,)}, {"x_starts": (0, 0)}, {"x_starts": (0, 9)}, {"side": 3}, {"shape": (8, 8)},
                  {"meta_room": 0}, {"data_type": "quarter"}):
        with pytest.raises(InvalidArgumentError):
            BucketLayout(**(good | wrong))
    with pytest.raises(InvalidArgumentError, match="shape"):
        Partitioner(layout).create_sparsity_data(random_matrix(random_pattern(8, 4, 1, density=0.5, seed=1)))
    with pytest.raises(InvalidArgumentError, match="blocks of"):
        Partitioner(layout).create_sparsity_data(random_matrix(random_pattern(8, 8, 2, density=0.5, seed=1)))
    with pytest.raises(InvalidTypeError, match="w"):
        Partitioner(layout).create_sparsity_data(np.eye(8))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="capacity"):
        Partitioner(layout).create_sparsity_data(matrix(layout, 0.1, 1), capacity="shrink")
    plan = plan_fully_connected(FullyConnectedParams(64, 64, 8, 0.3), plan_constraints={"useDense": True})
    with pytest.raises(InvalidArgumentError, match="dense"):
        Partitioner(plan)


@given(seed=st.integers(0, 9), at=st.integers(0, 10**6), word=st.integers(0, 65535), side=st.sampled_from([1, 4]))
def test_words_that_were_changed_are_read_or_refused(seed: int, at: int, word: int, side: int) -> None:
    layout = BucketLayout((8 * side, 8 * side, 4), (0, 4 * side), (0, 4 * side), (0,), 20 * side**2, 150, side=side)
    words = Partitioner(layout).create_sparsity_data(matrix(layout, 0.4, seed))
    changed = words.meta_words.copy()
    changed[at % changed.size] = word
    try:
        found = SparsityData.of_words(layout, changed, words.values).to_matrix()
    except InvalidArgumentError:
        return
    assert found.shape == layout.shape[:2]


def test_an_empty_pattern_has_empty_buckets() -> None:
    layout = BucketLayout((8, 8, 4), (0, 4), (0,), (0, 2), 16, 100)
    data = Partitioner(layout).create_sparsity_data(
        BlockSparseMatrix(BlockPattern((8, 8), 1, [0] * 9, []), np.empty((0, 1, 1), np.float32)))
    assert not data.meta_info.any()
    assert data.overflow == (1, 1, 2, 0)
    assert data.to_matrix().n_blocks == 0
