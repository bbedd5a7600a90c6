"""Planning a product of PopLibs' ``popsparse::static_`` for a modelled machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...checks import instance
from ...errors import MemoryLimitError, PlanError
from ...log import tell
from ...target import Target, memory_limit, modelled_machine
from ...target.types import data_type
from ..matrix import BlockSparseMatrix
from ..pattern import BlockPattern
from ._search import PHASE_NAMES
from .model import StaticModel
from .options import StaticOptions
from .params import StaticParams
from .plan import StaticPlan

NO_PLAN = "Could not find valid partition (try increasing memory proprtion)"
"""What PopLibs says where no plan fits."""


def plan_static_matmul(w: BlockSparseMatrix | BlockPattern, n: int, *, dtype: object = None,
                       target: Target | str = "gc200", options: Mapping[str, Any] | StaticOptions | None = None,
                       **more: Any) -> StaticPlan:
    """Plan ``Y = W X`` for a modelled machine, the pattern of W being known.

    Corresponds to PopLibs' ``popsparse::static_::getPartition``: the same plan, cycles and bytes, field by field.

    Parameters
    ----------
    w : BlockSparseMatrix or BlockPattern, shape (m, k)
        Square blocks of side 1, 4, 8 or 16 that divide it, one group. Its values are not read.
    n : int
        Columns of X.
    dtype : Format, dtype or str, optional
        FP16 or FP32 (``"half"``, ``"float"``); by default that of `w`, and FP16 for a pattern.
    target : Target or str, optional
        The machine, or the name of a preset (default GC200).
    options : mapping or StaticOptions, optional
        PopLibs' options in its spelling or Python's: see `StaticOptions`.
    **more
        Options by keyword, such as ``available_memory_proportion=0.2``; one that contradicts `options` is refused.

    Returns
    -------
    StaticPlan

    Raises
    ------
    MemoryLimitError
        If no plan keeps to the memory limit: the message names the smallest proportion that one fits. There is no
        ladder, as in PopLibs.
    PlanError
        If no plan meets the options, however much memory there is.

    Examples
    --------
    >>> from poplibs_py.popsparse import banded_pattern
    >>> from poplibs_py.popsparse.static_matmul import plan_static_matmul
    >>> plan = plan_static_matmul(banded_pattern(1024, 1024, 16, 1, 1), 64)
    >>> plan.n_split, plan.cycles, plan.temp_bytes
    (4, 1778, 3072)
    """
    instance("w", w, (BlockSparseMatrix, BlockPattern), "a BlockSparseMatrix or a BlockPattern")
    pattern, usual = (w, "half") if isinstance(w, BlockPattern) else (w.pattern, w.format)
    kind = data_type("dtype", usual if dtype is None else dtype, ("half", "float"))
    return planned(StaticParams(pattern, n, kind), StaticOptions.parse(options, **more), modelled_machine(target))


def planned(params: StaticParams, options: StaticOptions, target: Target) -> StaticPlan:
    """Plan a checked problem."""
    model = StaticModel(params, options, target)
    best, least = model.search.search()
    if best is None:
        raise _refusal(options, target, least)
    n_split, k_split, cycles, temp_bytes, phases = best
    boundaries, blocks, most = model.search.bands(k_split)
    plan = StaticPlan(
        params, options, target, n_split, k_split, tuple(boundaries), tuple(blocks), most, cycles, temp_bytes,
        memory_limit(target, options.available_memory_proportion) or 0,
        dict(zip(PHASE_NAMES, phases, strict=True)), model.row_order, model.column_order)
    tell("popsparse", plan)
    return plan


def _refusal(options: StaticOptions, target: Target, least: int) -> PlanError | MemoryLimitError:
    """Why there is no plan: too little memory, or options that no plan meets."""
    if least < 0:
        asked = {"numBands": options.num_bands, "nSplit": options.n_split}
        named = ", ".join(f"{key}={value}" for key, value in asked.items() if value) or "this problem"
        return PlanError(f"options: got {named}; allowed: what a plan for {target.tiles} tiles can meet, with offsets "
                         "that 16 bits hold")
    share = options.available_memory_proportion
    return MemoryLimitError(
        f"available_memory_proportion: got {share:g}, {memory_limit(target, share) or 0:,} bytes of a tile; allowed: "
        f"at least {smallest_proportion(target, least)!r}, the {least:,} bytes that the smallest plan takes")


def smallest_proportion(target: Target, size: int) -> float:
    """Return the smallest proportion of a tile's memory, to six places, that leaves so many bytes."""
    places = 10.0**6
    found = math.ceil(size / target.bytes_per_tile * places) / places
    while (memory_limit(target, found) or 0) < size:
        found += 1 / places
    return found
