"""How wrong a static product of a modelled machine may be: see `poplibs_py.popsparse.modelled_bound`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...formats.bounds import Ball
from ...target import Target
from ..matrix import BlockSparseMatrix
from ..modelled_bound import modelled_ball
from .modelled import plan_of_call


def static_ball(w: BlockSparseMatrix, x: Any, target: Target, options: Mapping[str, Any] | None,
                proportion: float | None) -> Ball:
    """Return exact results and radii of ``W X`` on a modelled machine, as the static product takes them."""
    columns = math.prod(np.shape(x)[1:2]) or 1  # without columns nothing is planned, and nothing wrong
    plan = plan_of_call(w, columns, target, options, proportion)
    return modelled_ball(w, x, plan.partials_type, plan.params.side)
