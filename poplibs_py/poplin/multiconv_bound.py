"""How wrong several convolutions may be: each as alone, on a modelled machine by the plan that they have together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..formats.bounds import Ball
from ..ops import target_of
from ..target import TargetLike
from .conv import api, bound
from .conv.request import Pass, deltas_pass, forward_pass, update_pass
from .conv.several import tile_plans
from .multiconv import calls_of, passes_of


def convolution_bound(calls: Any, **of_all: Any) -> tuple[Ball, ...]:
    """Return exact results and radii of a `multiconv.convolution` call."""
    return _each(api.convolution, forward_pass, bound.convolution_bound, calls, of_all)


def calculate_weight_deltas_bound(calls: Any, **of_all: Any) -> tuple[Ball, ...]:
    """Return exact results and radii of a `multiconv.calculate_weight_deltas` call."""
    return _each(api.calculate_weight_deltas, deltas_pass, bound.calculate_weight_deltas_bound, calls, of_all)


def convolution_weight_update_bound(calls: Any, **of_all: Any) -> tuple[Ball, ...]:
    """Return exact results and radii of a `multiconv.convolution_weight_update` call, given weights as they were."""
    return _each(api.convolution_weight_update, update_pass, bound.convolution_weight_update_bound, calls, of_all)


def _each(face: Any, describe: Callable[..., Pass], of_one: Callable[..., Ball], calls: Any,
          of_all: Mapping[str, Any]) -> tuple[Ball, ...]:
    target: TargetLike = of_all.get("target")
    seeds = {} if face is api.convolution_weight_update else {"seed": of_all.get("seed")}
    shared = {"target": target} | seeds
    plans: list[Any] = [None] * len(calls)
    if target_of(target).kind != "host":
        passes = passes_of(face, describe, calls, shared)
        some = [number for number, one in enumerate(passes) if one.receiver.array.size]
        together = [passes[number] for number in some]
        made = tile_plans(together, of_all.get("multi_options")).plans if some else ()
        for number, plan in zip(some, made, strict=True):
            plans[number] = plan
    return tuple(of_one(**call, **shared, plan=plan)
                 for call, plan in zip(calls_of(face, calls, shared), plans, strict=True))
