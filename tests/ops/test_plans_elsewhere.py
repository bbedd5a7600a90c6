"""Plans that are pickled are compiled in another process, whose kernels lie elsewhere."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np

from poplibs_py import poplin, popops
from poplibs_py.popsparse import random_matrix, random_pattern, static

COMPILES = {"poplin.compile_matmul": poplin.compile_matmul, "poplin.compile_convolution": poplin.compile_convolution,
            "popops.compile_multi_slice": popops.compile_multi_slice,
            "static.compile_sparse_dense_matmul": static.compile_sparse_dense_matmul}

CHILD = """
import pickle, sys
from poplibs_py import poplin, popops
from poplibs_py.popsparse import static

calls = pickle.load(sys.stdin.buffer)
results = [eval(compiled)(plan)(*operands) for compiled, plan, operands in calls]
sys.stdout.buffer.write(pickle.dumps(results))
"""


def test_a_plan_is_compiled_in_another_process() -> None:
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    w = random_matrix(random_pattern(32, 24, 4, density=0.5, seed=1), seed=1)
    layer = poplin.ConvParams.create(field=[9, 9], kernel=[3, 3], in_channels=4, out_channels=6)
    plans = (poplin.plan_matmul((33, 17), (17, 40)), poplin.plan_convolution(layer, target="host", dtype="float32"),
             popops.plan_embedding(50, 12, 7, dtype="float32", target="host"), static.plan_sparse_dense_matmul(w, 8))
    operands = ((numbers(33, 17), numbers(17, 40)), (numbers(1, 4, 9, 9), numbers(1, 6, 4, 3, 3)),
                (numbers(50, 12), np.arange(7)[:, None]), (w, numbers(24, 8)))
    calls = list(zip(COMPILES, plans, operands, strict=True))
    made = subprocess.run([sys.executable, "-c", CHILD], input=pickle.dumps(calls), capture_output=True, check=False)
    assert not made.returncode, made.stderr.decode()
    due = [compiled(plan)(*given) for compiled, plan, given in zip(COMPILES.values(), plans, operands, strict=True)]
    for got, want in zip(pickle.loads(made.stdout), due, strict=True):
        assert got.tobytes() == want.tobytes()
