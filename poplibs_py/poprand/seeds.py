"""Seeding the calls that are given no seed."""

from __future__ import annotations

from ..errors import whole
from ..ops import seed_of
from ._stream import seed_default
from .arguments import Machine, Seed, Stream, is_ipu
from .hardware import seed_machine

__all__ = ["set_seed"]


def set_seed(seed: Seed, seed_modifier: int = 0, *, stream: Stream = "counter", target: Machine = None) -> None:
    """Seed the stream that calls without a seed continue.

    Corresponds to PopLibs' ``poprand::setSeed``.

    Parameters
    ----------
    seed : (int, int) or int or None
        As in `uniform`; None takes the system's entropy (counter stream only).
    seed_modifier : int, optional
        32 bits.
    stream : {"counter", "ipu"}, optional
        The host's stream, or the generators of every worker of a modelled IPU.
    target : Target or str, optional
        The modelled IPU; a GC200 by default.

    Examples
    --------
    >>> from poplibs_py import poprand
    >>> poprand.set_seed((1, 2))
    >>> x = poprand.normal(3)
    >>> poprand.set_seed((1, 2))
    >>> bool((x == poprand.normal(3)).all())
    True
    """
    modifier = whole("seed_modifier", seed_modifier, 0, (1 << 32) - 1)
    if is_ipu(stream, target):
        seed_machine(target, seed_of(seed), modifier)
    else:
        seed_default(None if seed is None else seed_of(seed), modifier)
