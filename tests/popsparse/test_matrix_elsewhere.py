"""Matrices in other processes and libraries: pickles, sizes, tokens."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from poplibs_py.formats import FORMATS, Format, QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern

NAMES = [f.name for f in FORMATS]


def matrix(dtype: str = "bfloat16", **how: Any) -> BlockSparseMatrix:
    return random_matrix(random_pattern(64, 96, 16, 0.5, 3), dtype, 5, **how)


def scaled() -> BlockSparseMatrix:
    return BlockSparseMatrix.from_dense(matrix("float32").to_dense(), 16, dtype="e4m3", scale="auto_per_block")


@pytest.mark.parametrize("dtype", NAMES)
def test_pickles_send_values_out_of_band_and_name_no_other_package(dtype: str) -> None:
    for w in (matrix(dtype), matrix(dtype).T, scaled()):
        buffers: list[pickle.PickleBuffer] = []
        sent = pickle.dumps(w, protocol=5, buffer_callback=buffers.append)
        assert b"ml_dtypes" not in sent
        assert len(sent) < 2000
        assert sum(buffer.raw().nbytes for buffer in buffers) >= w.nbytes
        again = pickle.loads(sent, buffers=buffers)
        assert again.equals(w)
        assert again.is_transposed == w.is_transposed
        assert again.dtype == w.dtype
        assert np.shares_memory(again.blocks, w.blocks)
        assert pickle.loads(pickle.dumps(w)).equals(w)


def test_pickles_of_codes_and_formats_name_no_other_package() -> None:
    own = Format("mine", 3, 2, 3)
    for form in (*FORMATS, own):
        assert b"ml_dtypes" not in pickle.dumps(form)
        assert pickle.loads(pickle.dumps(form)) == form
        assert pickle.loads(pickle.dumps(form)).dtype == form.dtype
    codes = QuarterArray.from_array(np.ones((4, 4)), "f143", scale=3)
    sent = pickle.dumps(codes, protocol=5)
    assert b"ml_dtypes" not in sent
    assert np.array_equal(pickle.loads(sent).codes, codes.codes)


def test_sizes_count_what_is_held() -> None:
    w = matrix("float32")
    assert w.blocks.nbytes + w.pattern.row_offsets.nbytes < sys.getsizeof(w) < 1.1 * w.nbytes + 1000
    assert sys.getsizeof(w.pattern) > w.pattern.column_indices.nbytes
    before = sys.getsizeof(w.pattern)
    w.pattern.transposed_index()
    assert sys.getsizeof(w.pattern) > before + w.column_indices.nbytes
    codes = QuarterArray(np.zeros(1000, np.uint8), "f143")
    assert 1000 < sys.getsizeof(codes) < 1500


def tokens() -> list[str]:
    w = matrix()
    return [thing.__dask_tokenize__() for thing in (w, w.T, scaled(), w.pattern, w.format,
                                                   QuarterArray.from_array(np.ones(3), "f152", scale=1))]


def test_tokens_are_those_of_the_contents_in_every_process() -> None:
    found = tokens()
    assert len(set(found)) == len(found)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_matrix_elsewhere as t; print(*t.tokens())"
    ran = subprocess.run([sys.executable, "-c", code, __file__.rpartition("/")[0]], capture_output=True, text=True,
                         check=True)
    assert ran.stdout.split() == found
    changed = matrix()
    changed.blocks[0, 0, 0] += 1
    others = [changed, matrix("float16"), random_matrix(random_pattern(64, 96, 16, 0.5, 4), "bfloat16", 5)]
    assert not {other.__dask_tokenize__() for other in others} & set(found)
    assert matrix("f143", scale=0).__dask_tokenize__() != matrix("f143", scale=1).__dask_tokenize__()
