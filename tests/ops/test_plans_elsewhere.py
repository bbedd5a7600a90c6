"""Plans that are pickled are compiled in another process, whose kernels lie elsewhere, and refused on a lesser CPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops, profile
from poplibs_py.config import LEVELS
from poplibs_py.kernels import available_levels
from poplibs_py.ops.plans import check_kernels
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


MADE_AGAIN = "popops.compile_multi_slice", "popnn.softmax", "popnn.lstm_fwd"
"""What has no kernel before it is lowered, and what is ready to run, which is made ready again wherever it is read."""

BELOW = """
import pickle, sys
from poplibs_py import poplin, popops
from poplibs_py.errors import UnsupportedError
from poplibs_py.ops.plans import check_kernels
from poplibs_py.popsparse import static

said = []
for compiled, plan in pickle.load(sys.stdin.buffer):
    plan.explain()  # is read anywhere
    try:
        eval(compiled)(plan)
        said.append("")
    except UnsupportedError as error:
        said.append(str(error))
sys.stdout.buffer.write(pickle.dumps(said))
"""


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def planned() -> dict[str, Any]:
    """A plan of each kind that is compiled, by what compiles it."""
    w = random_matrix(random_pattern(32, 24, 4, density=0.5, seed=1), seed=1)
    layer = poplin.ConvParams.create(field=[9, 9], kernel=[3, 3], in_channels=4, out_channels=6)
    plans = (poplin.plan_matmul((33, 17), (17, 40)), poplin.plan_convolution(layer, target="host", dtype="float32"),
             popops.plan_embedding(50, 12, 7, dtype="float32", target="host"), static.plan_sparse_dense_matmul(w, 8))
    return dict(zip(COMPILES, plans, strict=True))


def test_a_plan_is_compiled_in_another_process() -> None:
    w = random_matrix(random_pattern(32, 24, 4, density=0.5, seed=1), seed=1)
    plans = planned().values()
    operands = ((numbers(33, 17), numbers(17, 40)), (numbers(1, 4, 9, 9), numbers(1, 6, 4, 3, 3)),
                (numbers(50, 12), np.arange(7)[:, None]), (w, numbers(24, 8)))
    calls = list(zip(COMPILES, plans, operands, strict=True))
    made = subprocess.run([sys.executable, "-c", CHILD], input=pickle.dumps(calls), capture_output=True, check=False)
    assert not made.returncode, made.stderr.decode()
    due = [compiled(plan)(*given) for compiled, plan, given in zip(COMPILES.values(), plans, operands, strict=True)]
    for got, want in zip(pickle.loads(made.stdout), due, strict=True):
        assert got.tobytes() == want.tobytes()


def ran() -> dict[str, Any]:
    """Plans that nobody compiles, of calls that ran here."""
    x, w, u = numbers(3, 2, 4), numbers(4, 4, 5), numbers(4, 5, 5)
    q = numbers(1, 2, 64, 16)
    with profile() as report:
        popnn.softmax(numbers(40, 30))
        popnn.scaled_dot_product_attention(q, q, q)
        popnn.lstm_fwd(x, w, u)
    return {run.op: run.plan for run in report.runs}


@pytest.mark.skipif(available_levels()[-1] == LEVELS[0], reason="no CPU is less than this one")
def test_a_plan_of_another_cpu_is_read_and_names_the_kernel_that_this_one_lacks() -> None:
    calls = [*planned().items(), *(("check_kernels", plan) for plan in ran().values())]
    for _, plan in calls:
        check_kernels(plan)
    made = subprocess.run([sys.executable, "-c", BELOW], input=pickle.dumps(calls), capture_output=True, check=False,
                          env=os.environ | {"POPLIBS_MAX_ISA": LEVELS[0]})
    assert not made.returncode, made.stderr.decode()
    said = dict(zip([*planned(), *ran()], pickle.loads(made.stdout), strict=True))
    for name in MADE_AGAIN:
        assert said.pop(name) == ""
    assert len(said) == len(calls) - len(MADE_AGAIN)
    for text in said.values():
        assert text.startswith("plan: got one of another CPU, which takes the kernel "), said
        assert any(f"({level})" in text for level in available_levels()[1:])  # not all have kernels of the highest
        assert text.endswith(f"the levels that this one may run, {LEVELS[0]}")
