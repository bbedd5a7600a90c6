"""From a plan of an experimental block-sparse product to a program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...memo import remembered
from ...program import Executable
from ..modelled import TileBlocks, lower_tiles
from ..operands import DenseLayout
from ..samples_modelled import TileSamples, lower_samples
from .plan import BsMatmulPlan


@remembered(weight=128)
def lower(plan: BsMatmulPlan, transposed: bool, one: DenseLayout, other: DenseLayout) -> Executable:
    """Return the executable of a plan.

    Parameters
    ----------
    plan : BsMatmulPlan
    transposed : bool
        Whether the sparse operand is stored as its transpose.
    one, other : DenseLayout
        Of a sparse result: how the dense operands lie, [m, k] and [n, k]; it runs on these and on the stored result.
        Else how X and the result do, [k, m] and [n, m]; it runs on the stored values and these.
    """
    work = plan.work
    if isinstance(work, TileSamples):
        return lower_samples(work, one, other)
    assert isinstance(work, TileBlocks)
    if transposed:  # its blocks are those of the transpose, in that order
        work = replace(work, blocks=np.argsort(plan.params.pattern.transposed()[1])[work.blocks], transposed=False)
    return lower_tiles(work, one, other)
