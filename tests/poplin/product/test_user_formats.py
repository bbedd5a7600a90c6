"""Products whose result has a format without a dtype."""

import numpy as np
import pytest
from format_oracle import USERS

from poplibs_py import poplin, testing
from poplibs_py.errors import UnsupportedError
from poplibs_py.formats import Format, QuarterArray
from poplibs_py.testing import random_operand

A, B = random_operand((5, 33), "float16", 1), random_operand((33, 7), "float16", 2)


@pytest.mark.parametrize("fmt", USERS, ids=str)
def test_out_dtype_gives_what_out_receives(fmt):
    bias = np.arange(7, dtype=np.float32)
    prepared = poplin.prepare(B)
    for keywords in ({}, {"alpha": 0.5, "bias": bias, "activation": "relu"}):
        want = QuarterArray(np.zeros((5, 7), fmt.code_dtype), fmt)
        poplin.matmul(A, B, out=want, **keywords)
        for b in (B, B, prepared, prepared):
            got = poplin.matmul(A, b, out_dtype=fmt, **keywords)
            assert (got.format, got.scale) == (fmt, 0)
            np.testing.assert_array_equal(got.codes, want.codes)
        testing.check("matmul", A, B, out_dtype=fmt, **keywords)
    assert poplin.matmul(A[0], B, out_dtype=fmt).shape == (7,)
    assert poplin.matmul_grouped(A[None], B[None], out_dtype=fmt).shape == (1, 5, 7)
    assert poplin.matmul(A[:0], B, out_dtype=fmt).shape == (0, 7)


def test_formats_that_differ_are_told_apart():
    narrow, wide = (Format(f"3 and {bits}", 3, bits, bias=3) for bits in (2, 4))
    first, second = (poplin.matmul(A, B, out_dtype=f) for f in (narrow, wide))
    assert (first.format, second.format) == (narrow, wide)
    assert poplin.matmul(A, B).dtype == np.float16


def test_compiled_products_give_such_a_format_too():
    run = poplin.compile_matmul(poplin.plan_matmul((5, 33), (33, 7), dtype="float16", out_dtype=USERS[0]))
    planned, plain = run(A, B), poplin.matmul(A, B, out_dtype=USERS[0])
    assert planned.format == plain.format == USERS[0]
    np.testing.assert_array_equal(planned.codes, plain.codes)


def test_modelled_machines_refuse_such_a_format():
    with pytest.raises(UnsupportedError, match=rf"has no vertex for poplin.matmul of float16 to {USERS[0]}$"):
        poplin.matmul(A, B, out_dtype=USERS[0], target="gc200")
