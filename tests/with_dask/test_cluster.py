"""Products and sweeps over a local cluster of two workers; without Dask they are skipped by name."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

from poplibs_py import dask  # noqa: E402
from poplibs_py.cli import main  # noqa: E402
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError  # noqa: E402
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern, static  # noqa: E402
from poplibs_py.report.sparsity import Case, Sweep  # noqa: E402
from poplibs_py.report.sparsity.cluster import ClusterSweep  # noqa: E402

DTYPES = ["float32", "bfloat16", "f143"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POPLIBS_NUM_THREADS", "1")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                                      silence_logs=50) as made:
            yield made


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster, set_as_default=False) as made:
        yield made


def operands(dtype: str, rows: int = 72, columns: int = 100) -> tuple[BlockSparseMatrix, Any]:
    w = random_matrix(random_pattern(rows, columns, (8, 16), 0.4, 1), dtype, 2)
    x = np.random.default_rng(3).standard_normal((columns, 30)).astype(np.float32)
    return w, x if dtype == "float32" else x.astype(w.dtype)


def same_bits(got: Any, want: np.ndarray) -> None:
    assert isinstance(got, np.ndarray)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("parts", [1, 2, 5, 100])
@pytest.mark.parametrize("turned", [False, True])
def test_pieces_are_the_matrix_with_about_as_many_blocks_each(parts: int, turned: bool) -> None:
    w = operands("float32", 640, 320)[0]
    w = w.T if turned else w
    pieces = w.split_rows(parts)
    assert len(pieces) == min(parts, -(-w.shape[0] // w.block_shape[0]))
    assert np.array_equal(np.concatenate([piece.to_dense() for piece in pieces]), w.to_dense())
    longest = max(part.n_blocks for part in w.split_rows(10**6))
    assert all(abs(piece.n_blocks - w.n_blocks / len(pieces)) <= 2 * longest for piece in pieces)


def test_pieces_of_a_group_and_of_nothing() -> None:
    w = BlockSparseMatrix.from_dense(np.arange(1.0, 97).reshape(2, 8, 6), 2)
    pieces = w.split_rows(2)
    assert [piece.shape for piece in pieces] == [(4, 6), (4, 6)]
    assert np.array_equal(np.concatenate([piece.to_dense() for piece in pieces], 1), w.to_dense())
    empty = BlockSparseMatrix.from_mask(np.zeros((4, 2), bool), 2)
    assert [piece.shape for piece in empty.split_rows(2)] == [(4, 4), (4, 4)]
    assert BlockSparseMatrix.from_mask(np.zeros((0, 2), bool), 2).split_rows(3) == []
    with pytest.raises(InvalidArgumentError, match=r"^parts: got 0"):
        w.split_rows(0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [1, 3])
def test_products_over_rows_and_columns_have_the_same_bits(client: Any, dtype: str, parts: int) -> None:
    w, x = operands(dtype)
    bias = np.arange(72, dtype=np.float32)
    shards = dask.shard(w, parts, client=client)
    chunked = da.from_array(x, chunks=(40, 12))
    y = dask.sparse_dense_matmul(shards, chunked, bias=bias, activation="relu")
    assert y.numblocks == (parts, 3)
    same_bits(client.compute(y).result(), static.sparse_dense_matmul(w, x, bias=bias, activation="relu"))
    turned = np.ascontiguousarray(x.T)
    y = dask.dense_sparse_matmul(da.from_array(turned, chunks=(12, 40)),
                                 dask.shard(w.T, parts, axis="columns", client=client), out_dtype="float32")
    assert y.numblocks == (3, parts)
    same_bits(client.compute(y).result(), static.dense_sparse_matmul(turned, w.T, out_dtype="float32"))


def test_gradients_over_rows_have_the_same_bits(client: Any) -> None:
    w, x = operands("float32")
    grads = np.random.default_rng(4).standard_normal((72, 30)).astype(np.float32)
    made = dask.sparse_grad_w(dask.shard(w, 3, client=client), da.from_array(grads, chunks=17), x, out_dtype="bfloat16")
    same_bits(client.compute(made).result(), static.sparse_grad_w(w, grads, x, out_dtype="bfloat16"))
    with pytest.raises(InvalidArgumentError, match=r"^w: got a transposed view"):
        dask.sparse_grad_w(w.T, x, grads)


def test_pieces_stay_where_they_are_and_products_need_no_cluster(client: Any) -> None:
    w, x = operands("float32")
    shards = dask.shard(w, 2, client=client)
    assert len({worker for workers in client.who_has(shards.pieces).values() for worker in workers}) == 2
    want = static.sparse_dense_matmul(w, x)
    same_bits(dask.sparse_dense_matmul(dask.shard(w, 2), x).compute(scheduler="threads"), want)
    same_bits(dask.sparse_dense_matmul(w, x).compute(scheduler="synchronous"), want)


def test_what_does_not_fit_is_refused_by_name() -> None:
    w, x = operands("float32")
    for call, error, message in [
        (lambda: dask.shard(x, 2), InvalidTypeError, "^w: got"),
        (lambda: dask.shard(w, 2, axis="depth"), InvalidArgumentError, "^axis: got depth"),
        (lambda: dask.shard(w, 0), InvalidArgumentError, "^parts: got 0"),
        (lambda: dask.shard(w, 2, client=3), InvalidTypeError, "^client: got int"),
        (lambda: dask.shard(BlockSparseMatrix.from_dense(np.ones((2, 4, 4)), 2), 2), InvalidArgumentError, "^w: got 2"),
        (lambda: dask.sparse_dense_matmul(dask.shard(w, 2, axis="columns"), x), InvalidArgumentError,
         "^w: got pieces of columns"),
        (lambda: dask.sparse_dense_matmul(w, x[1:]), InvalidArgumentError, "^x: got shape"),
        (lambda: dask.dense_sparse_matmul(x, w), InvalidArgumentError, "^x: got shape"),
        (lambda: dask.sparse_dense_matmul(w, x.astype(np.float64)), InvalidTypeError, "^x: got"),
        (lambda: dask.sparse_dense_matmul(w, x[0]), InvalidArgumentError, "^x: got 1 dimensions"),
        (lambda: dask.sparse_dense_matmul(w, x, bias=[1, 2]), InvalidArgumentError, "^bias: got shape"),
        (lambda: dask.sparse_dense_matmul(w, x, activation="tanh"), InvalidArgumentError, "^activation: got"),
        (lambda: dask.sparse_grad_w(w, x, x), InvalidArgumentError, "^x: got shape"),
    ]:
        with pytest.raises(error, match=message):
            call()


FAST = ["--size", "64", "--n", "8", "--density", "1/4", "--block", "8,16", "--seconds", "0.01", "--type", "FP32"]


def test_a_sweep_runs_on_the_workers(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tmp_path / "s.csv", tmp_path / "s.html"
    words = [*FAST, "--peer", "none", "--csv", str(files[0]), "--html", str(files[1])]
    assert main(["bench", "sparsity", "--scheduler", cluster.scheduler_address, *words]) == 0
    with files[0].open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["m"], row["block_size"]) for row in rows if row["block_size"]} == {
        ("64", block) for block in ("8", "16")}
    assert {row["case"] for row in rows} == {"1", "2"}
    assert all(row["valid"] == "True" and float(row["flop_rate"]) > 0 for row in rows)
    told = capsys.readouterr().out
    assert "workers       2 of " in told
    assert "2 of" in files[1].read_text()


def test_a_sweep_says_what_its_cluster_lacks(cluster: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^peer: got no_library"):
        ClusterSweep(Sweep(peers=["no_library"]), cluster.scheduler_address)
    with pytest.raises(InvalidArgumentError, match=r"^scheduler: got"):
        ClusterSweep(Sweep(peers=[]), "nowhere")
    with ClusterSweep(Sweep(types=["FP32"], peers=[], seconds=0.01), cluster.scheduler_address) as sweep:
        assert len(sweep.workers) == 2
        cases = [Case(64, 64, 4, 0.25, 8, seed) for seed in range(3)]
        found = dict(sweep.run(cases))
        assert list(sweep.rates)
    assert set(found) == set(cases)
    assert sorted(records[0].case for records in found.values()) == [1, 2, 3]
