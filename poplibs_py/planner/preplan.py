"""Planning many problems on all cores."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from ..checks import all_of, whole
from ..errors import bad_type

P = TypeVar("P")
R = TypeVar("R")

_FEW = 4  # problems for which starting processes does not pay


def preplan(problems: Iterable[P], plan: Callable[[P], R], *, jobs: int | None = None) -> list[R]:
    """Plan every problem, on as many processes as there are cores; results come in the order of the problems.

    Corresponds to PopLibs' ``preplan``. Equal problems are planned once.

    Parameters
    ----------
    problems : iterable
        Hashable problems.
    plan : callable
        Plans one; a function of a module, so that another process can find it.
    jobs : int, optional
        Processes (default: the CPUs this process may use; 1 plans here).
    """
    listed = all_of("problems", problems, Hashable, "problems that can be hashed")
    if not callable(plan):
        raise bad_type("plan", plan, "a function of a problem")
    if jobs is None:
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = whole("jobs", jobs, 1, 1 << 16)
    unique = list(dict.fromkeys(listed))
    jobs = min(jobs, len(unique))
    if jobs <= 1 or len(unique) <= _FEW:
        made = dict(zip(unique, map(plan, unique), strict=True))
    else:
        # a fork is quick, but not safe beside threads that may hold locks
        alone = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("fork" if alone else "spawn")
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            made = dict(zip(unique, pool.map(plan, unique), strict=True))
    return [made[problem] for problem in listed]
