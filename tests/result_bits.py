"""Results of any op as something that compares equal only to the same bits."""

import numpy as np

from poplibs_py.formats import QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix


def bits(result):
    """All that a result is made of."""
    if isinstance(result, (tuple, list)):
        return tuple(map(bits, result))
    if isinstance(result, BlockSparseMatrix):
        return result.pattern, result.format, np.asarray(result.scale).tobytes(), result.blocks.tobytes()
    if isinstance(result, QuarterArray):
        return result.format, result.block_shape, np.asarray(result.scale).tobytes(), result.codes.tobytes()
    if isinstance(result, int):
        return result
    return result.dtype, result.shape, result.tobytes()
