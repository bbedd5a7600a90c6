"""Static sparse products on a modelled machine: the numbers of the plan, what a record tells, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, MemoryLimitError, UnsupportedError
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern, static
from poplibs_py.popsparse.static_matmul import plan_static_matmul
from poplibs_py.popsparse.static_matmul.lower import tile_blocks
from poplibs_py.popsparse.static_matmul.modelled import interpret_static
from poplibs_py.target import Target


def drawn(rows: int, columns: int, side: int, density: float, n: int, dtype: str,
          seed: int) -> tuple[BlockSparseMatrix, np.ndarray]:  # type: ignore[type-arg]
    pattern = random_pattern(rows * side, columns * side, side, density=density, seed=seed)
    w = random_matrix(pattern, dtype=dtype, seed=seed)
    x = np.random.default_rng(seed).standard_normal((columns * side, n)).astype(dtype)
    return w, x


@given(rows=st.integers(1, 12), columns=st.integers(1, 12), side=st.sampled_from([1, 4, 8, 16]),
       density=st.floats(0, 1), n=st.integers(1, 40), tiles=st.integers(1, 30),
       partials=st.sampled_from(["half", "float"]), dtype=st.sampled_from(["float16", "float32"]),
       seed=st.integers(0, 99))
def test_the_numbers_are_those_of_the_plan(rows: int, columns: int, side: int, density: float, n: int, tiles: int,
                                           partials: str, dtype: str, seed: int) -> None:
    w, x = drawn(rows, columns, side, density, n, dtype, seed)
    target, kind = Target.small(tiles), "float" if dtype == "float32" else partials
    options = {"partialsType": kind}
    plan = plan_static_matmul(w, n, target=target, options=options)
    y = testing.check("popsparse.static.sparse_dense_matmul", w, x, target=target, options=options)
    testing.assert_same_bits(y, interpret_static(plan, w, x))


def test_bits_depend_on_neither_strides_nor_threads_nor_how_w_is_stored() -> None:
    w, x = drawn(16, 16, 8, 0.3, 48, "float16", 1)
    y = static.sparse_dense_matmul(w, x, target="gc200")
    wide = np.zeros((x.shape[1], 2 * x.shape[0]), np.float16).T
    wide[::2] = x
    with thread_limit(1):
        testing.assert_same_bits(static.sparse_dense_matmul(w, wide[::2], target="gc200"), y)
    out = np.zeros((48, 128), np.float16).T
    assert static.sparse_dense_matmul(w, x, out=out, target="gc200") is out
    testing.assert_same_bits(out, y)
    stored = BlockSparseMatrix.from_dense(w.to_dense().T.astype(np.float16), 8)
    testing.assert_same_bits(static.sparse_dense_matmul(stored.T, x, target="gc200"), y)
    turned = static.dense_sparse_matmul(np.ascontiguousarray(x.T), w.T, target="gc200")
    testing.assert_same_bits(np.ascontiguousarray(turned.T), y)
    vector = static.sparse_dense_matmul(w, np.ascontiguousarray(x[:, 0]), target="gc200")
    plan = plan_static_matmul(w, 1)
    testing.assert_same_bits(vector[:, None], interpret_static(plan, w, x[:, :1]))


def test_rows_without_blocks_are_zero() -> None:
    w = BlockSparseMatrix.from_dense(np.diag([0, 2, 0, 4]).astype(np.float16).repeat(4, 0).repeat(4, 1), 4)
    y = static.sparse_dense_matmul(w, np.ones((16, 4), np.float16), out=np.full((16, 4), np.nan, np.float16),
                                   target=Target.small(4))
    assert np.array_equal(y[:, 0], np.repeat([0, 8, 0, 16], 4))
    none = random_matrix(random_pattern(16, 16, 4, density=0, seed=1), dtype="float16")
    assert not static.sparse_dense_matmul(none, np.ones((16, 4), np.float16), target="gc200").any()


def test_products_without_columns() -> None:
    w = random_matrix(random_pattern(8, 12, 4, density=0.5, seed=1), seed=1)
    assert testing.check("static.sparse_dense_matmul", w, np.zeros((12, 0), np.float32), target="gc200").shape == (8, 0)
    assert testing.check("static.dense_sparse_matmul", np.zeros((0, 8), np.float32), w, target="gc200").shape == (0, 12)


def test_a_record_tells_plan_phases_tiles_and_bytes() -> None:
    w, x = drawn(64, 64, 16, 0.2, 64, "float16", 3)
    with profile(target="gc200") as report:
        static.sparse_dense_matmul(w, x)
        static.sparse_dense_matmul(w, x, bias=np.zeros(1024, np.float32))
    run, host = report.runs
    plan = plan_static_matmul(w, 64)
    assert run.plan == plan
    assert not run.lacking
    assert "multiply" in run.phases
    assert "reduce" in run.phases
    assert run.tile_macs is not None
    assert run.tile_macs.sum() == w.n_blocks * 256 * 64
    assert run.exchanged_bytes == sum(tile_blocks(plan).exchanged())
    assert run.plan.phases["multiply"] > 0
    assert "bias" in host.lacking


def test_what_no_vertex_does_is_refused_by_name() -> None:
    w, x = drawn(4, 4, 4, 0.5, 8, "float16", 4)
    for more, what in [({"bias": np.zeros(16, np.float16)}, "bias"), ({"out_dtype": "float32"}, "to float32"),
                       ({"activation": "relu"}, "activation")]:
        with pytest.raises(UnsupportedError, match=what):
            static.sparse_dense_matmul(w, x, target="gc200", **more)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="float16 and float32"):
        static.sparse_dense_matmul(w, x.astype(np.float32), target="gc200")
    with pytest.raises(UnsupportedError, match="square blocks"):
        static.sparse_dense_matmul(random_matrix(random_pattern(6, 6, 2, density=1), dtype="float16"),
                                   np.ones((6, 4), np.float16), target="gc200")
    with pytest.raises(InvalidArgumentError, match="depth"):
        static.sparse_dense_matmul(w, x[:8], target="gc200")
    with pytest.raises(MemoryLimitError, match="at least"):
        static.sparse_dense_matmul(w, x, target="gc200", available_memory_proportion=1e-4)
