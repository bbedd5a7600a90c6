"""Cycles of single vertices of `cost-golden`; what no model has yet is skipped by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import pytest

from poplibs_py.popops.binary_model import binary_vertex_cycles, dual_output_cycles, scalar_vertex_cycles
from poplibs_py.popops.broadcast_model import inner_1d_cycles, inner_2d_cycles, outer_cycles
from poplibs_py.popops.cast_model import cast_vertex_cycles
from poplibs_py.popops.fill_model import fill_vertex_cycles
from poplibs_py.popops.model import unary_vertex_cycles
from poplibs_py.popops.reduce_model import (
    continuous_reduce_cycles,
    reduce_cycles,
    single_input_reduce_cycles,
    strided_reduce_cycles,
)
from poplibs_py.popops.scaled_model import scaled_1d_cycles, scaled_2d_cycles
from poplibs_py.popops.ternary_model import ternary_vertex_cycles
from poplibs_py.target import Target
from poplibs_py.target.mapping import Runs

from .families import Line

GC200 = Target.gc200()
Fields = dict[str, Any]


def regions(data: int | list[int]) -> Runs:
    """A field of elements as regions."""
    return tuple((n, 1) for n in (data if isinstance(data, list) else [data]))


def first(fields: Fields) -> Runs:
    """The regions of a vertex's first field."""
    return regions(next(iter(fields.values())))


def true(param: str) -> bool:
    """A template parameter that is a truth value."""
    return {"true": True, "false": False}[param]


def _elements(cycles: Callable[..., int]) -> Callable[..., int]:
    def run(name: str, params: list[str], fields: Fields) -> int:
        return cycles(GC200, *params, first(fields), two_d="2D" in name, in_place="InPlace" in name)
    return run


def _cast(name: str, params: list[str], fields: Fields) -> int:
    return cast_vertex_cycles(GC200, name, *params, first(fields))


def _scalar(name: str, params: list[str], fields: Fields) -> int:
    return scalar_vertex_cycles(GC200, *params[:2], first(fields), two_d="2D" in name, in_place="InPlace" in name,
                                uniform="1D" in name or "2DData" in name, result_type="".join(params[2:]))


def _dual(name: str, params: list[str], fields: Fields) -> int:
    return dual_output_cycles(GC200, *params[1:], fields["data"])


def _outer(name: str, params: list[str], fields: Fields) -> int:
    return outer_cycles(GC200, *params[:2], fields["columns"], fields["rows"], by_row="ByRow" in name,
                        misaligned=true(params[2]))


def _inner(name: str, params: list[str], fields: Fields) -> int:
    in_place = "InPlace" in name
    if "1D" in name:
        return inner_1d_cycles(GC200, *params, fields["bSliceLen"], fields["bSlicesM1"] + 1,
                               fields["bBroadcastFactor"], in_place=in_place)
    words = fields["workList"]
    return inner_2d_cycles(GC200, *params, list(zip(words[1::2], words[2::2], strict=True)), in_place=in_place)


def _fill(name: str, params: list[str], fields: Fields) -> int:
    return fill_vertex_cycles(*params, first(fields), two_d=name == "Fill2d")


def _ternary(name: str, params: list[str], fields: Fields) -> int:
    op = name.removesuffix("InPlace")
    data = fields["in1Out"] if "in1Out" in fields else fields["out"]
    return ternary_vertex_cycles(GC200, op, *params, regions(data), in_place=op != name)


def _scaled(name: str, params: list[str], fields: Fields) -> int:
    op = re.sub("Supervisor$|2D$", "", name)
    *types, constrained = params
    data, *others = types
    y, scale = (others[0], others[1]) if len(others) == 2 else (data, others[0] if others else data)
    keywords = {"constrained": true(constrained)}
    if name.endswith("2D"):
        return scaled_2d_cycles(GC200, op, (data, y, scale), first(fields), **keywords)
    far = fields.get("layout") == "ScaledPtr64"
    return scaled_1d_cycles(GC200, op, (data, y, scale), fields["A"], far=far, **keywords)


def _reduce(name: str, params: list[str], fields: Fields) -> int:
    op, partial, out, update = params[:4]
    types, updates = (partial, out), {"update": true(update)}
    if name == "StridedReduce":
        return strided_reduce_cycles(GC200, op, types, fields["numPartials"], fields["numOutputs"], fields["stride"],
                                     outer=fields["numOuterStrides"], **updates)
    if name == "SingleInputReduce":
        return single_input_reduce_cycles(GC200, op, types, fields["numPartials"])
    if name == "ContinuousReduce":
        return continuous_reduce_cycles(GC200, op, types, fields["numPartials"], fields["numOutputsM1"] + 1, **updates)
    ends = list(accumulate(fields["numPartials"], initial=0))
    partials = [fields["partials"][begin:end] for begin, end in pairwise(ends)]
    return reduce_cycles(GC200, op, types, list(zip(fields["out"], partials, strict=True)), **updates)


NAMES: dict[str, Callable[[str, list[str], Fields], int]] = {
    r"UnaryOp[12]D(InPlace)?": _elements(unary_vertex_cycles),
    r"BinaryOp[12]D(InPlace)?": _elements(binary_vertex_cycles),
    r"Cast(1D|1DSingleWorker|2D)": _cast,
    r"BroadcastScalar1DRelationalOpDualOutput": _dual,
    r"BroadcastScalar(2Types)?(1D|2D|2DData)(InPlace)?": _scalar,
    r"BroadcastVectorOuterBy(Row|Column)1D(InPlace)?": _outer,
    r"BroadcastVectorInner[12]D(InPlace)?": _inner,
    r"Fill(2d)?": _fill,
    r"(Broadcast|BroadcastSelector)?Select(InPlace)?|(Broadcast)?Clamp(InPlace)?": _ternary,
    r"(ScaledAdd|ScaledSubtract|aXPlusbY|aXMinusbY|XMinusaXPlusbY)(Supervisor|2D)": _scaled,
    r"(Strided|SingleInput|Continuous)?Reduce": _reduce,
}
"""What gives the cycles, by PopLibs' names of the classes without their namespace."""


def vertices(case: Line) -> None:
    """Cycles of one vertex."""
    fields = case.fields
    name = fields["vertex"].rpartition("::")[2]
    for pattern, cycles in NAMES.items():
        if re.fullmatch(pattern, name):
            assert cycles(name, fields["params"], fields["fields"]) == fields["cycles"]
            return
    pytest.skip(f"{name}: not built yet")
