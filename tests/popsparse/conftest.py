"""Fixtures of the tests of sparse products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from poplibs_py import profile
from poplibs_py.config import thread_limit
from poplibs_py.popsparse.sddmm import plan as sddmm
from poplibs_py.popsparse.softmax import model as softmax_model
from poplibs_py.popsparse.softmax import plan as softmax
from poplibs_py.popsparse.spmm import model
from poplibs_py.popsparse.spmm import plan as spmm


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], AbstractContextManager[None]]:
    """Run every product within a block on so many threads, however little work it is."""

    @contextmanager
    def running(count: int) -> Iterator[None]:
        plans = spmm._fastest, spmm._fitted, sddmm._decided, softmax.plan_softmax
        with monkeypatch.context() as patch, thread_limit(count), profile():  # what is listened to is not kept
            patch.setattr(model, "WORK_FOR_A_THREAD", 1)
            patch.setattr(softmax_model, "WORK_FOR_A_THREAD", 1)
            for cached in plans:
                cached.cache_clear()
            yield
        for cached in plans:
            cached.cache_clear()

    return running
