"""The peers' wrappers give right answers and refuse what the library behind them would not check."""

from __future__ import annotations

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from scipy import sparse

from poplibs_py import poplin
from poplibs_py.errors import PoplibsError
from poplibs_py.report.peers import (
    convolution_routes,
    dense_routes,
    installed,
    limited_threads,
    load_mkl,
    restraints,
    sparse_routes,
)

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with limited_threads(1):
        yield


def signs(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values from {-1, 0, 1}: with a depth under 256 every order of sums and every format gives the same bits."""
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dense_routes_are_exact_on_exact_data(dtype):
    w, x = signs((48, 80)), signs((80, 24), 1)
    routes = dense_routes(w.astype(dtype), x.astype(dtype))
    if dtype is np.float32:
        assert "numpy" in {route.library for route in routes}
    for route in routes:
        np.testing.assert_array_equal(route.result()[0], w @ x, err_msg=f"{route.library} {route.format}")


@pytest.mark.parametrize("block", [1, 4, 16])
def test_sparse_routes_are_exact_on_exact_data(block):
    mask = np.kron(np.random.default_rng(2).random((64 // block, 96 // block)) < 0.25, np.ones((block, block)))
    w, x = (signs((64, 96)) * mask).astype(np.float32), signs((96, 24), 1)
    matrix = sparse.bsr_array(w, blocksize=(block, block)) if block > 1 else sparse.csr_array(w)
    routes = sparse_routes(matrix, x)
    assert {route.method for route in routes} == ({"csr_sparse", "bsr_sparse"} if block > 1 else {"csr_sparse"})
    assert {route.library for route in routes} == set(installed()) - {"numpy"}
    for route in routes:
        np.testing.assert_array_equal(route.result()[0], w @ x, err_msg=f"{route.library} {route.method}")


def test_mkl_transposed_product():
    mkl = load_mkl()
    if mkl is None:
        pytest.skip("MKL is not installed")
    w, x = signs((40, 56)), signs((40, 8), 1)
    product = mkl.sparse(sparse.csr_array(w), columns=8).product(x, transposed=True)
    np.testing.assert_array_equal(product, w.T @ x)


def test_mkl_refuses_what_it_would_misread():
    mkl = load_mkl()
    if mkl is None:
        pytest.skip("MKL is not installed")
    a = signs((8, 8))
    double = a.astype(np.float64)
    bad = [(a[:, ::2], a), (a.T, a), (a, a.astype(np.float16)), (a, a[:4]), (double, double)]
    for left, right in bad:
        with pytest.raises(PoplibsError):
            mkl.gemm(left, right)
    with pytest.raises(PoplibsError, match="out"):
        mkl.gemm(a, a, np.empty((8, 4), np.float32))
    with pytest.raises(PoplibsError, match="square"):
        mkl.sparse(sparse.bsr_array(a, blocksize=(2, 4)), columns=8)
    with pytest.raises(PoplibsError, match="matrix"):
        mkl.sparse(sparse.csc_array(a), columns=8)


def test_limited_threads_restores():
    mkl = load_mkl()
    if mkl is None:
        pytest.skip("MKL is not installed")
    with limited_threads(2):
        with limited_threads(1):
            assert mkl.threads() == 1
        assert mkl.threads() == 2
    with pytest.raises(PoplibsError, match="count"), limited_threads(0):
        pass


@pytest.mark.parametrize("first", ["", "import torch; "], ids=["torch comes later", "torch is there"])
def test_torch_is_limited_whether_or_not_it_was_imported_before(first):
    pytest.importorskip("torch")
    program = (f"{first}from poplibs_py.report.peers import limited_threads\n"
               "with limited_threads(1):\n"
               "    import torch; print(torch.get_num_threads())\n"
               "print(torch.get_num_threads())")
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | {"OMP_NUM_THREADS": "2"},
                          capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "2"]


def test_every_openblas_of_the_process_is_limited():
    pytest.importorskip("scipy.linalg")  # brings an OpenBLAS of its own
    pools = pytest.importorskip("threadpoolctl").threadpool_info
    with limited_threads(1):
        assert {pool["num_threads"] for pool in pools() if pool["internal_api"] in ("openblas", "mkl")} <= {1}


def test_settings_that_slow_a_peer_are_named(monkeypatch):
    for setting in restraints():
        monkeypatch.delenv(setting.partition("=")[0])
    assert restraints() == []
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("MKL_CBWR", "")
    assert restraints() == ["OPENBLAS_CORETYPE=Haswell"]


def test_convolutions_of_peers_are_exact_on_exact_data():
    x, w, deltas = signs((1, 8, 6, 5)), signs((4, 2, 3, 3), 1), signs((1, 4, 6, 5), 2)
    expected = {
        "forward": poplin.convolution(x, w, padding=1, groups=4),
        "data gradient": poplin.convolution_input_gradient(deltas, w, padding=1, groups=4),
        "weight gradient": poplin.calculate_weight_deltas(deltas, x, padding=1, groups=4, kernel_shape=3),
    }
    for dtype in DTYPES[:3]:
        found = convolution_routes(*(array.astype(dtype) for array in (x, w, deltas)), padding=1, groups=4)
        assert list(found) == list(expected)
        for name, routes in found.items():
            for route in routes:
                np.testing.assert_array_equal(route.result()[0], expected[name], err_msg=f"{name}, {route}")
