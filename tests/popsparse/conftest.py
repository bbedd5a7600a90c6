"""Fixtures of the tests of sparse products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from poplibs_py import profile
from poplibs_py.config import thread_limit
from poplibs_py.memo import forget
from poplibs_py.popsparse.softmax import model as softmax_model
from poplibs_py.popsparse.spmm import model


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], AbstractContextManager[None]]:
    """Run every product within a block on so many threads, however little work it is."""

    @contextmanager
    def running(count: int) -> Iterator[None]:
        with monkeypatch.context() as patch, thread_limit(count), profile():  # what is listened to is not kept
            patch.setattr(model, "WORK_FOR_A_THREAD", 1)
            patch.setattr(softmax_model, "WORK_FOR_A_THREAD", 1)
            forget()
            yield
        forget()

    return running
