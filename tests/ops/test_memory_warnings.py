"""A limit on memory that nothing keeps to is told of by each call, however often it was made before."""

from __future__ import annotations

import copy
import inspect
import warnings

import pytest

from poplibs_py.errors import MemoryLimitWarning, PoplibsError
from poplibs_py.ops import catalogue
from poplibs_py.testing.cases import cases

LIMITED = [(name, case) for name in catalogue
           if {"available_memory_proportion", "target"} <= inspect.signature(catalogue[name].face).parameters.keys()
           for case in cases(name) if "available_memory_proportion" not in case.keywords]


def warnings_of(name, case, target):
    """How many warnings of the limit a call gives."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        operands, keywords = copy.deepcopy(case.operands), copy.deepcopy(case.keywords)
        catalogue[name].face(*operands, **keywords, available_memory_proportion=1e-7, target=target)
    return sum(issubclass(one.category, MemoryLimitWarning) for one in told)


@pytest.mark.parametrize(("name", "case"), LIMITED, ids=lambda x: x if isinstance(x, str) else x.what)
@pytest.mark.parametrize("target", ["host", "gc200"])
def test_each_call_over_its_limit_warns(name, case, target):
    try:
        first = warnings_of(name, case, target)
    except PoplibsError as refusal:
        pytest.skip(f"refused: {type(refusal).__name__}")
    assert [warnings_of(name, case, target) for _ in range(2)] == [first, first]
