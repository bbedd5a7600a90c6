"""Ops that draw, and where a call of one draws: in the counter stream, or on a modelled IPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..checks import one_of, whole
from ..errors import UnsupportedError, bad_argument
from ..formats import Array
from ..ops import Request, op, seed_of
from ..ops.record import Function
from ._stream import seed_default
from .arguments import Seed, Stream, TargetLike, TileMapping, result
from .hardware import Dealer, seed_machine
from .law import Law, Place

PLACE = ("seed", "seed_modifier", "offset")
"""The parameters that each call has of its own: where in the stream it draws."""


def random_op(poplibs: str = "", *, like: str = "", written: str | None = "out", values: tuple[str, ...] = PLACE,
              lacks: str = "") -> Callable[[Function], Function]:
    """Make a function an op of this library, as `poplibs_py.ops.op` does: its bound and its draws have its name, or
    that of the op that it is `like`."""
    bound, draws = (f":{like}_bound", f":{like}_calls") if like else ("", "")
    return op(poplibs, bound="poprand.bound" + bound, draws="testing.random_calls" + draws, written=written,
              values=values, lacks=lacks)


class Where(NamedTuple):
    """The arguments of a call that say where it draws."""

    seed: Seed
    seed_modifier: int
    stream: Stream
    offset: int
    target: TargetLike = None
    tile_mapping: TileMapping = None

    @property
    def is_ipu(self) -> bool:
        """Whether on a modelled IPU; otherwise there may be no target and no mapping."""
        one_of("stream", self.stream, ("counter", "ipu"))
        if self.stream == "counter" and (self.target is not None or self.tile_mapping is not None):
            name = "tile_mapping" if self.target is None else "target"
            raise bad_argument(name, getattr(self, name), "None for stream='counter', which no machine changes")
        return self.stream == "ipu"

    @property
    def place(self) -> Place:
        """The place in the counter stream."""
        return Place.of(self.seed, self.seed_modifier, self.offset)

    @property
    def dealer(self) -> Dealer:
        """What draws on the modelled IPU."""
        if whole("offset", self.offset):
            allowed = "0 for stream='ipu', whose numbers depend on the whole tensor's mapping"
            raise bad_argument("offset", self.offset, allowed)
        modifier = whole("seed_modifier", self.seed_modifier, 0, (1 << 32) - 1)
        return Dealer(self.target, self.tile_mapping, self.seed, modifier)

    def counted(self, law: Law, shape: object, out: object) -> Request:
        """Describe a call that draws by a law of the counter stream."""
        return law.request(result(shape, law.dtype, out), self.place)

    def drawn(self, law: Callable[[], Law], draw: Callable[[Dealer, int], Array], shape: object, dtype: np.dtype[Any],
              out: object) -> Request:
        """Describe a call that draws by a law, or has a modelled IPU's dealer draw so many elements."""
        if not self.is_ipu:
            return self.counted(law(), shape, out)
        receiver, dealer = result(shape, dtype, out, contiguous=False), self.dealer
        return dealer.request(receiver, lambda count: draw(dealer, count))


def counter_only(op: str, stream: Stream) -> None:
    """Refuse the IPU's stream for what PopLibs lacks."""
    if Where(None, 0, stream, 0).is_ipu:
        raise UnsupportedError(f"stream: got 'ipu'; allowed for {op}: 'counter', for PopLibs does not have it")


def set_seed(seed: Seed, seed_modifier: int = 0, *, stream: Stream = "counter", target: TargetLike = None) -> None:
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
    if Where(seed, modifier, stream, 0, target).is_ipu:
        seed_machine(target, seed_of(seed), modifier)
    else:
        seed_default(None if seed is None else seed_of(seed), modifier)
