"""How PopLibs deals the steps of a recurrent layer out to parts of a machine, each of which keeps its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd

from ...target import Target
from ...target.types import TYPE_BYTES

_GRAIN = 16
_SHARE = 0.1  # of a tile's memory that inputs, outputs and what is saved may take


@dataclass(frozen=True)
class Sharding:
    """How many shards there are, and what each takes.

    Attributes
    ----------
    shards, most_shards : int
        That are taken, and that the machine has room for.
    input_bytes, output_bytes : int
        Of a step on a tile.
    shard_tiles : int
        Tiles of a shard.
    """

    shards: int
    most_shards: int
    input_bytes: int
    output_bytes: int
    shard_tiles: int


def sharded(target: Target, data_type: str, batch: int, steps: int, inputs: int, outputs: int, saved: int) -> Sharding:
    """Return how a layer's steps are dealt out.

    Parameters
    ----------
    target : Target
    data_type : str
    batch, steps, inputs, outputs : int
        Of the layer; elements of an input and of an output.
    saved : int
        Results of each step that are kept, as large as an output: what the cell keeps (`Cell.kept`), and one more where
        only the last output is returned.

    Examples
    --------
    >>> from poplibs_py.popnn.recurrent.cell import LSTM
    >>> from poplibs_py.popnn.recurrent.sharding import sharded
    >>> from poplibs_py.target import Target
    >>> sharded(Target.gc200(tiles=304), "float", 1, 10, 16, 512, LSTM.whole).most_shards
    5
    """
    sizes, tiles = [], []
    for elements in (inputs, outputs):
        grain = gcd(_GRAIN, elements)
        grains = elements // grain * batch
        each = -(-grains // target.tiles)
        sizes.append(each * grain * TYPE_BYTES[data_type])
        tiles.append(-(-grains // each))
    room = target.tiles // max(tiles)
    most = -(-steps // -(-steps // room))
    taken = (sizes[0] + sizes[1] * (1 + saved)) * steps
    shards = min(ceil(taken / (_SHARE * target.bytes_per_tile)), most)
    return Sharding(shards, most, sizes[0], sizes[1], max(tiles))
