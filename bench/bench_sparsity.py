"""The block-sparse sweep's quick cases, one benchmark for each method, type and peer route.

The cases, the operands and the checks are those of ``poplibs-py bench sparsity``; see `poplibs_py.report.sparsity`.
``POPLIBS_BENCH_SWEEP=paper`` takes the paper's axes in place of the quick ones.
"""

from __future__ import annotations

import os
from functools import lru_cache

import pytest

from poplibs_py.report.peers import installed
from poplibs_py.report.sparsity import METHODS, TYPES, Case, paper_axes, quick_cases
from poplibs_py.report.sparsity.methods import Contestant, method_contestants, peer_contestants

CASES = list(paper_axes().cases()) if os.environ.get("POPLIBS_BENCH_SWEEP") == "paper" else quick_cases()
ROUTES = [
    pytest.param(library, method, id=f"{library}-{method}")
    for library in installed()
    for method in ("dense", "csr_sparse", "bsr_sparse")
    if (library, method) not in {("scipy", "dense"), ("numpy", "csr_sparse"), ("numpy", "bsr_sparse")}
]


@lru_cache(maxsize=1)
def peers(case: Case) -> list[Contestant]:
    """Every peer's routes in a case; the last case's are kept, since its benchmarks follow each other."""
    return list(peer_contestants(case, list(installed()), ["forward"], ["FP32"]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def bench_ours(case, type_name, method, measure, benchmark):
    benchmark.group = str(case)
    (contestant,) = method_contestants(case, type_name, [method])
    run(case, contestant, measure, TYPES[type_name].name)


@pytest.mark.parametrize(("library", "method"), ROUTES)
@pytest.mark.parametrize("case", CASES, ids=str)
def bench_peer(case, library, method, measure, benchmark):
    benchmark.group = str(case)
    found = [c for c in peers(case) if (c.library, c.method) == (library, method)]
    if not found:
        pytest.skip(f"{library} has no {method} route for blocks of {case.block}")
    run(case, found[0], measure, "float32")


def run(case: Case, contestant: Contestant, measure, format_name: str) -> None:
    """Check a contestant's answer, then time it."""
    error, share = contestant.judge()
    assert share <= 1, f"wrong answer: error {error:.3g}, {share:.3g} times the bound"
    flops = 2.0 * case.m * case.k * case.n * (1.0 if contestant.method == "dense" else case.density)
    measure(contestant.run, flops=flops, format_name=format_name, library=contestant.library, method=contestant.method,
            type=contestant.type, err=error, err_over_bound=share, kernel=contestant.kernel, isa=contestant.isa,
            plan=contestant.plan, bytes=contestant.bytes)
