"""What a dynamic sparse layer is, as PopLibs' planner is told: sizes and how many blocks, no pattern."""

from __future__ import annotations

import dataclasses
import math

from ...checks import one_of, real, whole
from ...errors import bad_argument

_MOST = 2**24
_SUPPORTED = {"half": (16, 8, 4), "float": (8, 4)}


def side_in_use(side: int, data_type: str) -> int:
    """Return the side of the blocks that vertices take: the largest of theirs that divides a pattern's.

    Examples
    --------
    >>> side_in_use(16, "float"), side_in_use(12, "half")
    (8, 4)
    """
    return side if side == 1 else next(n for n in _SUPPORTED[data_type] if side % n == 0)


@dataclasses.dataclass(frozen=True)
class FullyConnectedParams:
    """A fully connected layer with sparse weights whose pattern may change. PopLibs' ``dynamic::FullyConnectedParams``.

    A product W X, W of shape (m, k) and X of n columns, is the layer of `outputs` m, `inputs` k and `batch` n: PopLibs'
    ``dynamic::MatMulParams``.

    Parameters
    ----------
    outputs, inputs : int
        Rows and columns of the weights of a group: multiples of `side`.
    batch : int
        Rows of activations.
    nz_ratio : float
        Stored elements over all, above 0 and up to 1.
    side : int
        Of the square blocks: 1, or a multiple of 4. Blocks that no vertex takes are cut into the largest that one does:
        16, 8 or 4 for half, 8 or 4 for float.
    data_type : str
        Of weights, activations and results: ``"half"`` or ``"float"``.
    groups : int
        Default 1.

    Examples
    --------
    >>> from poplibs_py.popsparse.fully_connected import FullyConnectedParams
    >>> FullyConnectedParams(1024, 1024, 64, 0.1, side=16).blocks
    410
    """

    outputs: int
    inputs: int
    batch: int
    nz_ratio: float
    side: int = 1
    data_type: str = "half"
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("outputs", "inputs", "batch", "side", "groups"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1, _MOST))
        object.__setattr__(self, "nz_ratio", real("nz_ratio", self.nz_ratio, "a number above 0, up to 1", 0, 1))
        if not self.nz_ratio:
            raise bad_argument("nz_ratio", self.nz_ratio, "a number above 0, up to 1")
        one_of("data_type", self.data_type, ("half", "float"))
        if self.side != 1 and self.side % 4:
            raise bad_argument("side", self.side, "1, or a multiple of 4: PopLibs has vertices for blocks of 4, 8, 16")
        for name in ("outputs", "inputs"):
            if getattr(self, name) % self.side:
                raise bad_argument(name, getattr(self, name), f"a multiple of the blocks' side, {self.side}")

    @property
    def block(self) -> int:
        """Side of the blocks that vertices take."""
        return side_in_use(self.side, self.data_type)

    @property
    def blocks(self) -> int:
        """Blocks of that side that are stored, in all groups."""
        rows, columns = self.outputs // self.block, self.inputs // self.block
        return self.groups * math.ceil(rows * columns * self.nz_ratio)

    def __str__(self) -> str:
        groups = f"{self.groups} x " if self.groups > 1 else ""
        return (f"{groups}[{self.outputs}, {self.inputs}] x [{self.inputs}, {self.batch}], {self.nz_ratio:g} of it in "
                f"blocks of {self.side} x {self.side}, {self.data_type}")
