"""Every plan of a problem, one after another: what the search must agree with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from poplibs_py.errors import PlanError
from poplibs_py.planner import UNLIMITED
from poplibs_py.poplin.tile_conv import ConvProblem
from poplibs_py.poplin.tile_conv.candidates import candidates
from poplibs_py.poplin.tile_conv.joint import joint_setups
from poplibs_py.poplin.tile_conv.model import PassSetup, forward_bounds, make_model, method_allows
from poplibs_py.poplin.tile_conv.search import setup_of


def useful(extent: int, most: int) -> list[int]:
    """Splits that are least for their tile size: the constrained-divisor rule, by its definition."""
    return [s for s in range(1, min(extent, most) + 1) if s == 1 or -(-extent // s) < -(-extent // (s - 1))]


def pairs(extent: int, parallel: tuple[int, int], serial: tuple[int, int]) -> list[tuple[int, int]]:
    allowed = useful(extent, extent)
    return [
        (p, s)
        for p in range(parallel[0], parallel[1] + 1)
        for s in range(serial[0], serial[1] + 1)
        if p * s in allowed
    ]


def points(bounds: dict[str, Any], ndim: int, tiles: int) -> Iterator[tuple[Any, ...]]:
    """Every point of a candidate's space, in no particular order, as the search returns one."""
    menus = []
    for extent, least, most, required in bounds["axes"]:
        fits = [s for s in useful(extent, most) if s >= least and required in (0, -(-extent // s))]
        menus.append(fits)
    for side in ("out", "in"):
        extent, least, most, serial_least, serial_most, required = bounds[side]
        found = pairs(extent, (least, min(most, extent)), (serial_least, min(serial_most, extent)))
        menus.append([(p, s) for p, s in found if required in (0, -(-extent // (p * s)))])
    for batch, group, *rest in itertools.product(*menus):
        kernel, field, (out, out_serial), (inn, in_serial) = rest[:ndim], rest[ndim:-2], rest[-2], rest[-1]
        used = batch * group * out * inn
        for s in (*kernel, *field):
            used *= s
        if used > tiles or min(out_serial, in_serial) > 1:
            continue
        for broadcast in (0, 1) if out_serial > 1 else (0,):
            alone = ((split, 1) for split in (batch, group, *kernel, *field))
            yield (*alone, (out, out_serial), (inn, in_serial), broadcast)


def costs_of_all(problem: ConvProblem, joint: bool = False) -> Iterator[tuple[int, int, int]]:
    """(cycles, bytes, tiles) of every plan of every candidate."""
    target, params = problem.target, problem.params
    options = problem.options.for_params(params)
    for candidate in candidates(target, params, options, joint):
        setup = setup_of(params, options, joint, candidate)
        if not method_allows(setup):
            continue
        bounds = forward_bounds(target, setup, None)
        setups: list[PassSetup | None] = [setup]
        if joint:
            setups = joint_setups(target, params, setup)
        model = make_model(target, setups, bounds)
        for point in points(bounds, setup.stages.padded.ndim, target.tiles):
            costs = model.costs(point)
            if costs is not None:
                yield (
                    sum(c["totalCycles"] for c in costs),
                    max(c["totalTempBytes"] for c in costs),
                    costs[0]["totalTiles"],
                )


def best_by_force(problem: ConvProblem, bound: int = UNLIMITED, joint: bool = False) -> tuple[int, int] | None:
    """Least cycles, then bytes, within a byte bound."""
    try:
        return min((c[:2] for c in costs_of_all(problem, joint) if c[1] <= bound), default=None)
    except PlanError:
        return None
