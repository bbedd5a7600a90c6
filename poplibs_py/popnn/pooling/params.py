"""What a pooling is: its field, window and channels, and which pass of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ...checks import one_of, whole
from ...errors import bad_argument, bad_type
from .kinds import KINDS, TilePass

_MOST, _MOST_STEPS = 1 << 31, 1 << 44


def _extents(name: str, value: Any, least: int) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)):
        raise bad_type(name, value, "a tuple of integers")
    return tuple(whole(name, n, least, _MOST) for n in value)


@dataclass(frozen=True)
class PoolParams:
    """A pooling of a field by windows.

    Attributes
    ----------
    op : {"max", "avg", "sum"}
        What becomes of a window.
    direction : {"fwd", "bwd", "scale"}
        The pooling itself; its gradient; of maxima how many elements of a window share one, by which a gradient is
        scaled.
    field, kernel, stride, lower, upper : tuple of int
        Of each dimension: the input's extent, the window's, steps between windows, and padding at both ends, which
        truncates where it is negative.
    channels, batch : int
    data_type : {"float", "half"}
    """

    op: str
    direction: str
    field: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    batch: int
    data_type: str

    def __post_init__(self) -> None:
        one_of("op", self.op, tuple(KINDS))
        one_of("direction", self.direction, tuple(KINDS[self.op].tiles))
        one_of("data_type", self.data_type, ("float", "half"))
        for name in ("channels", "batch"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1, _MOST))
        for name, least in (("field", 1), ("kernel", 1), ("stride", 1), ("lower", -_MOST), ("upper", -_MOST)):
            extents = _extents(name, getattr(self, name), least)
            if not extents or len(extents) != len(self.field):
                raise bad_argument(name, extents, "a tuple of the field's dimensions, at least one")
            object.__setattr__(self, name, extents)
        if prod(self.field) * prod(self.kernel) * self.channels * self.batch > _MOST_STEPS:
            raise bad_argument("field", self.field, f"at most {_MOST_STEPS:,} elements times those of a window")
        if any(n < 1 for n in self.windows):
            raise bad_argument("kernel", self.kernel, f"windows within the padded field, which is {self.padded}")

    @property
    def padded(self) -> tuple[int, ...]:
        """The field with its padding."""
        return tuple(n + a + b for n, a, b in zip(self.field, self.lower, self.upper, strict=True))

    @property
    def windows(self) -> tuple[int, ...]:
        """Windows of each dimension."""
        return tuple((n - k) // s + 1 for n, k, s in zip(self.padded, self.kernel, self.stride, strict=True))

    @property
    def on_tiles(self) -> TilePass:
        """Its pass on a modelled machine."""
        return KINDS[self.op].tiles[self.direction]

    @property
    def backward(self) -> bool:
        """Whether it is a gradient, whose result is as large as the field."""
        return self.direction == "bwd"
