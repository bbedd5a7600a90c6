"""Room: sizes rounded up, and places in that of a `Sequence`, what its programs leave to each other."""

from __future__ import annotations

_LINE = 64


def rounded(n: int, grain: int) -> int:
    """Return a number rounded up to a multiple of a grain.

    Examples
    --------
    >>> rounded(100, 16)
    112
    """
    return -(-n // grain) * grain


def whole_lines(size: int) -> int:
    """Return bytes, up to the next cache line.

    Examples
    --------
    >>> whole_lines(100)
    128
    """
    return rounded(size, _LINE)


class Room:
    """Hands out places of a sequence of so many operands, each on a cache line of its own.

    Attributes
    ----------
    bytes : int
        Of all places.
    end : int
        Behind the last of them: where the next begins. To set it back is to give places away again.

    Examples
    --------
    >>> from poplibs_py.program import Room
    >>> room = Room(operands=2)
    >>> room.take(100), room.take(8), room.bytes
    ((2, 0), (2, 128), 192)
    """

    def __init__(self, operands: int) -> None:
        self.bytes = self.end = 0
        self._operand = operands

    def take(self, size: int) -> tuple[int, int]:
        """Return a new place of so many bytes, as a part of a sequence names it."""
        begin = self.end
        self.end += whole_lines(size)
        self.bytes = max(self.bytes, self.end)
        return self._operand, begin
