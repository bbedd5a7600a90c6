"""A limit on the time that planning may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..checks import real
from ..errors import bad_argument

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=0.0)


def deadline() -> float:
    """When planning must be done, in seconds of the monotonic clock; 0 where it may take as long as it takes."""
    return _DEADLINE.get()


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeLimitError` where the plans made inside take longer than this, all together.

    What the search had found by then is not returned: a plan is the best there is. Plans that come from a cache take no
    time. Of two limits, one inside the other, the sooner holds.

    Parameters
    ----------
    seconds : float or None
        More than 0; None sets no limit.

    Examples
    --------
    >>> from poplibs_py.planner import time_limit
    >>> from poplibs_py.poplin.tile_conv import matmul_params, plan_convolution
    >>> with time_limit(10):
    ...     plan_convolution(matmul_params(1, 64, 64, 64, "half"), target="gc200").joint
    False
    """
    if seconds is None:
        yield
        return
    allowed = "a finite number of seconds, more than 0"
    length = real("time_limit", seconds, allowed, 0, 2**31)
    if not length:
        raise bad_argument("time_limit", seconds, allowed)
    end, outer = time.monotonic() + length, deadline()
    token = _DEADLINE.set(min(end, outer) if outer else end)
    try:
        yield
    finally:
        _DEADLINE.reset(token)
