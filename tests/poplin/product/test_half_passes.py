"""FP16 in three passes of a matrix unit: within its wider bound, by keyword, plan and prepared operand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from poplibs_py import poplin, testing
from poplibs_py.kernels import level_statuses

SHAPES = [(40, 100, 50), (33, 65, 17), (64, 700, 64), (1, 40, 3)]


def operands(shape, seed):
    m, k, n = shape
    return testing.random_operand((m, k), "float16", seed), testing.random_operand((k, n), "float16", seed + 1)


def three_passes(shape):
    """Make a product in every way that takes the option, each checked against its bound."""
    a, b = operands(shape, sum(shape))
    how = {"half_passes": 3, "out_dtype": "float32"}
    got = testing.check("matmul", a, b, **how)
    c = testing.random_operand(got.shape, "float32", 9)
    testing.check("matmul_acc", c.copy(), a, b, half_passes=3)
    testing.check("matmul_grouped", a[None], b[None], bias=c[0], activation="relu", **how)
    plan = poplin.plan_matmul(a.shape, b.shape, dtype="float16", **how)
    testing.assert_same_bits(poplin.compile_matmul(plan)(a, b), got)
    ball = testing.bound("matmul", a, b, **how)
    testing.assert_within_bound(poplin.matmul(a, poplin.prepare(b, half_passes=3), **how), ball)
    return plan, got


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_three_passes_stay_within_their_bound(shape):
    three_passes(shape)


def test_three_passes_of_software_tiles():
    settings = {"POPLIBS_EMULATE_AMX": "1", "POPLIBS_MAX_ISA": "amx", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, __file__], env={**os.environ, **settings}, capture_output=True, text=True,
                         check=False, cwd=Path(__file__).parents[3])
    assert ran.returncode == 0, ran.stderr
    reason, *levels = ran.stdout.splitlines()
    if not reason.startswith("usable"):
        pytest.skip(f"software tiles: {reason}")
    assert levels == ["amx_emulated"] * 3


if __name__ == "__main__":  # in a process of its own, with software tiles
    tiles = level_statuses()[-1]
    print(tiles.reason)
    for shape in SHAPES[:3] if tiles.usable else ():
        plan, got = three_passes(shape)
        a, b = operands(shape, sum(shape))
        four = testing.check("matmul", a, b, out_dtype="float32")
        narrow = testing.bound("matmul", a, b, out_dtype="float32", half_passes=4)
        wide = testing.bound("matmul", a, b, out_dtype="float32", half_passes=3)
        assert (narrow.radius < wide.radius).all()
        assert np.abs(got - four).max() > 0  # the product of the low parts
        print(plan.kernel.level)
