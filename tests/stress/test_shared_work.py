"""Any work is worth a thread here: small calls are shared as only large ones are, and give what one thread gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_bits import bits

from poplibs_py import program, testing
from poplibs_py.config import thread_limit
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue, machine
from poplibs_py.popops.strided import lower as strided
from poplibs_py.popsparse.spmm import model as spmm
from poplibs_py.target import Target
from poplibs_py.testing.calls import calls
from poplibs_py.testing.ops import PREPARED

_NO_CACHE = 512
"""Bytes of second-level cache for which small operands are cut into parts, as large ones are."""


@pytest.fixture(autouse=True)
def any_work_is_worth_a_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make every program of the modules that ask how many threads pay with as many as there may be."""
    for name, module in list(sys.modules.items()):
        if name.startswith("poplibs_py") and getattr(module, "threads_for", None) is program.threads_for:
            monkeypatch.setattr(module, "threads_for", lambda work, each, most: max(1, min(most, work)))
    monkeypatch.setattr(strided, "_SHARE_UNIT", 64)
    forget()
    yield
    forget()


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")  # of a share of a cache that has no room
@pytest.mark.parametrize("op", [*catalogue, *PREPARED])
@settings(max_examples=max(1, settings.default.max_examples // 12), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_call_that_threads_share_gives_what_one_thread_gives(op, data):
    operands, keywords = data.draw(calls(op))
    with pytest.MonkeyPatch.context() as small:
        if data.draw(st.booleans()):
            small.setattr(machine, "_own_host", lambda threads: Target.host(threads).replace(bytes_per_tile=_NO_CACHE))
            small.setattr(spmm, "_L2", _NO_CACHE)
        with thread_limit(1):
            alone = testing.check(op, *operands, **keywords)
        with thread_limit(data.draw(st.integers(2, 7))):
            assert bits(testing.check(op, *operands, **keywords)) == bits(alone)
