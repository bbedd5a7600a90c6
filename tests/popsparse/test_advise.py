"""advise: the model's arithmetic for given rates, and what it says here."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.popsparse import Advice, BlockSparseMatrix, advise, random_matrix, random_pattern
from poplibs_py.popsparse.advise import Rates, _advice

seconds = st.floats(1e-12, 1e-3)
rates = st.builds(Rates, *[seconds] * len(dataclasses.fields(Rates)))


@given(rates, st.integers(1, 64), st.integers(1, 64), st.integers(1, 8), st.floats(0, 1), st.integers(1, 1000),
       st.one_of(st.none(), st.integers(1, 1000)))
def test_the_model(rates: Rates, rows: int, depth: int, block: int, density: float, n: int, calls: int | None) -> None:
    w = random_matrix(random_pattern(rows, depth, block, density))
    got = _advice(w, n, rates, calls)
    times = {"static": got.static, "dynamic": got.dynamic, "dense": got.dense}
    assert times[got.method] == min(times.values())
    assert 0 <= got.break_even_density <= 1
    if 0 < got.break_even_density < 1 and got.density != got.break_even_density:
        assert (got.static < got.dense) == (got.density < got.break_even_density)
    assert got.dynamic >= rates.dynamic_block * w.n_blocks
    more = _advice(w, n + 1, rates, calls)
    assert more.static >= got.static
    assert more.dense >= got.dense
    forever = _advice(w, n, rates, None)
    assert forever.static <= got.static
    assert forever.dynamic == got.dynamic


def test_it_measures_once_and_reads_well() -> None:
    w = random_matrix(random_pattern(256, 256, 16, 1 / 16))
    got = advise(w, 32)
    assert isinstance(got, Advice)
    assert advise(w, 32) == got
    assert advise(w.T, 32).shape == (256, 256, 32)
    assert min(got.static, got.dynamic, got.dense) > 0
    lines = repr(got).split("\n")
    assert lines[0] == f"Advice: {got.method} for (256 x 256) times (256 x 32)"
    assert lines[1].split()[0] == got.method
    assert got.dynamic >= got.static


# Measured on one core in FP32: blocks of 1 and of 16, W 2048 x 2048, X of 256 columns.
MEASURED = {
    1: Rates(static_call=2e-6, static_element=2.0e-11, static_row=2e-10, static_pattern=3e-9, dynamic_block=1e-9,
             dense_call=1e-6, dense_element=9e-12),
    16: Rates(static_call=2e-6, static_element=1.1e-11, static_row=2e-10, static_pattern=3e-8, dynamic_block=2e-8,
              dense_call=1e-6, dense_element=9e-12),
}


def test_dense_wins_without_zeros_and_sparse_with_hardly_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(format: Any, inputs: Any, block_shape: tuple[int, int], *_: Any) -> Rates:
        return MEASURED[block_shape[0]]

    monkeypatch.setattr(importlib.import_module("poplibs_py.popsparse.advise"), "_rates", measured)
    full = advise(random_matrix(random_pattern(512, 512, 1, 1.0)), 64)
    assert full.method == "dense"
    hardly = advise(random_matrix(random_pattern(1024, 1024, 16, 1 / 128)), 64)
    assert hardly.method == "static"
    assert hardly.break_even_density > hardly.density
    often = advise(random_matrix(random_pattern(1024, 1024, 16, 1 / 128)), 64, calls_per_pattern=1)
    assert often.method == "dynamic"


@pytest.mark.parametrize("call", [
    lambda w: advise(w.to_dense(), 4), lambda w: advise(w, 0), lambda w: advise(w, 4.0), lambda w: advise(w, 2**31),
    lambda w: advise(w, 4, x_dtype="float64"), lambda w: advise(w, 4, calls_per_pattern=0),
    lambda w: advise(BlockSparseMatrix.from_mask(np.zeros((0, 3), bool), 2), 4),
])  # fmt: skip
def test_bad_arguments_are_refused(call: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^[a-z_]+: got"):
        call(random_matrix(random_pattern(8, 8, 4, 0.5)))
