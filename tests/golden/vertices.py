"""Cycles of single vertices of `cost-golden`; what no model has yet is skipped by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import pytest

from poplibs_py.popnn.ctc_infer.model import rank_cycles, update_cycles
from poplibs_py.popnn.ctc_infer.model import reduce_cycles as join_cycles
from poplibs_py.popnn.rows.modelled import loss_cycles
from poplibs_py.popops.vertices.argmax import gather_cycles, sparse_cycles
from poplibs_py.popops.vertices.binary import binary_vertex_cycles, scalar_vertex_cycles
from poplibs_py.popops.vertices.broadcast import inner_1d_cycles, inner_2d_cycles, outer_cycles
from poplibs_py.popops.vertices.cast import cast_vertex_cycles
from poplibs_py.popops.vertices.counts import histogram_1d_cycles, nan_1d_cycles
from poplibs_py.popops.vertices.fill import fill_vertex_cycles, iota_cycles
from poplibs_py.popops.vertices.nonlinearities import gradient_1d_cycles, nonlinearity_1d_cycles
from poplibs_py.popops.vertices.others import normalise_image_cycles, spline_basis_cycles, spline_weighting_cycles
from poplibs_py.popops.vertices.reductions import (
    continuous_reduce_cycles,
    reduce_cycles,
    single_input_reduce_cycles,
    strided_reduce_cycles,
)
from poplibs_py.popops.vertices.scaled import scaled_1d_cycles, scaled_2d_cycles
from poplibs_py.popops.vertices.slices import (
    dynamic_slice_1d_cycles,
    interval_cycles,
    multi_slice_cycles,
    multi_update_op_cycles,
    one_hot_cycles,
    sequence_slice_cycles,
)
from poplibs_py.popops.vertices.ternary import ternary_vertex_cycles
from poplibs_py.popops.vertices.unary import unary_vertex_cycles
from poplibs_py.target import Target
from poplibs_py.target.mapping import Runs

from .families import Line
from .formulas import (
    CONSTANT,
    FREE,
    Work,
    accuracy_cycles,
    compare_and_swap_cycles,
    dual_output_cycles,
    dynamic_slice_2d_cycles,
    gradient_2d_cycles,
    greatest_cycles,
    hadamard_cycles,
    heap_sort_cycles,
    histogram_2d_cycles,
    nan_2d_cycles,
    nonlinearity_2d_cycles,
    pool_vertex_cycles,
    recursion_cycles,
    scalar_multiply_1d_cycles,
    scalar_multiply_2d_cycles,
)

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
    return inner_2d_cycles(*params, list(zip(words[1::2], words[2::2], strict=True)), in_place=in_place)


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


def _argmax(name: str, params: list[str], fields: Fields) -> int:
    if "MaxN" in name:
        pieces = -(-fields["activations"] // (1 << fields["divisorLog2"])) if "Gather" in name else 1
        return greatest_cycles(fields["activations"], fields["numK"], pieces, in_order=true(params[1]))
    if "Sparse" in name:
        return sparse_cycles(params[0], fields["activations"])
    return gather_cycles(GC200, params[0], fields["size"], fields["workerSize"])


def _dynamic(name: str, params: list[str], fields: Fields) -> int:
    slices = fields["numSubElements"]
    if "1D" in name:
        return dynamic_slice_1d_cycles(GC200, *params, fields["regionSize"], slices)
    rows = fields["baseT"][::fields["numBaseElements"]]
    return dynamic_slice_2d_cycles(*params, rows, slices, update="Update" in name)


def _slice_function(name: str, params: list[str], fields: Fields) -> int:
    counts = fields["elems"], fields["offsets"], fields["inRange"], fields["perEntry"]
    ordered = {"in_order": bool(fields["sorted"])}
    if name == "multiSlice":
        return multi_slice_cycles(GC200, params[0], *counts, update=bool(fields["update"]),
                                  split=bool(fields["splitSingle"]), **ordered)
    return multi_update_op_cycles(GC200, *params, *counts, subword=bool(fields["subWord"]),
                                  scaled=bool(fields["scaled"]), higher=bool(fields["scaleHigher"]), **ordered)


def _multi(name: str, params: list[str], fields: Fields) -> int:
    offsets, region = fields["offsets"], fields["regionSize"]
    if "Op" not in name:  # these pass on whether workers share a row where it is asked whether indices are sorted
        return multi_slice_cycles(GC200, params[0], region, offsets, offsets, 0, update=name == "MultiUpdate",
                                  in_order=bool(fields["splitSingleRegion"]))
    data_type, *scale, subword, op = params
    return multi_update_op_cycles(GC200, data_type, op, region, offsets, offsets, subword=true(subword),
                                  scaled=bool(scale), higher=bool(scale) and scale[0] != data_type)


def _intervals(name: str, params: list[str], fields: Fields) -> int:
    if "rowCount" in fields:
        return interval_cycles(params[0], fields["rowCount"])
    widths, heights = (fields.get(name, [1]) for name in ("regionWidths", "regionHeights"))
    rows = sum(fields["rowCounts"]) if "rowCounts" in fields else sum(widths) * sum(heights)
    return interval_cycles(params[0], len(fields["params"]) * rows)


def _sequences(name: str, params: list[str], fields: Fields) -> int:
    return sequence_slice_cycles(*params, fields["nElementsT"], fields["dstT"], fields["srcT"],
                                 fields["regionSize"])


def _one_hot(name: str, params: list[str], fields: Fields) -> int:
    return one_hot_cycles(*params, fields["indices"], custom=name.endswith("CustomValues"))[0]


def _nan(name: str, params: list[str], fields: Fields) -> int:
    both = true(params[1])
    if "2D" in name:
        return nan_2d_cycles(GC200, params[0], fields["in"], both=both)
    return nan_1d_cycles(GC200, params[0], fields["sizeIn8BytesPerWorker"], fields["remWorkerId"] > 0,
                         fields["remWorkerExtras"], both=both)


def _histogram(name: str, params: list[str], fields: Fields) -> int:
    data, levels = fields["data"], fields["histogramCount"]
    if "2D" in name:
        return histogram_2d_cycles(GC200, params[0], data, levels, absolute=true(params[1]))
    return histogram_1d_cycles(GC200, params[0], data, levels, absolute=true(params[1]), by_limits=true(params[2]))


def _spline(name: str, params: list[str], fields: Fields) -> int:
    if name == "SplineBasis":
        return spline_basis_cycles(params[0], sum(fields["basis"]))
    return spline_weighting_cycles(params[0], fields["input"][-1], fields["basis"][-1], sum(fields["output"]))


def _multiply(name: str, params: list[str], fields: Fields) -> int:
    data = next(iter(fields.values()))
    return scalar_multiply_2d_cycles(data, in_place="Inplace" in name) if "2D" in name else \
        scalar_multiply_1d_cycles(GC200, data)


def _nonlinearity(name: str, params: list[str], fields: Fields) -> int:
    data_type, op = params
    data = next(iter(fields.values()))
    if "Grad" in name:
        return (gradient_2d_cycles if "2D" in name else gradient_1d_cycles)(GC200, op, data_type, data)
    cycles = nonlinearity_2d_cycles if "2D" in name else nonlinearity_1d_cycles
    return cycles(GC200, op, data_type, data, in_place="InPlace" in name)


def _loss(name: str, params: list[str], fields: Fields) -> int:
    return loss_cycles(params[0], fields["probs"], cross_entropy="CrossEntropy" in name)


def _compare(name: str, params: list[str], fields: Fields) -> int:
    work = []
    for words in fields["worklists"]:
        last, _, low, high, first, *pairs = words  # twice the comparisons counted, and which way they go
        entries = tuple(zip(pairs[::2], pairs[1::2], strict=True))
        assert len(entries) == last + 1
        work.append(Work((low + (high << 16)) // 2, first, entries))
    kind = "keys" if "KeyVal" not in name else "secondary" if true(params[2]) else "values"
    return compare_and_swap_cycles(GC200, params[0], kind, work, fields["distanceToChangeOrder"])


def _pooling(name: str, params: list[str], fields: Fields) -> int:
    rows = [words[2::3] for words in fields["workList"]]
    work = [rows[begin:end] for begin, end in pairwise([0, *fields["startPos"]])]
    return pool_vertex_cycles(GC200, name != "SumPooling", name == "MaxPoolingGrad", fields["numChanGroupsM1"] + 1,
                              fields["chansPerGroupDM1"] + 1, fields["initInfo"], work)


def _recursion(name: str, params: list[str], fields: Fields) -> int:
    return recursion_cycles(fields["label"], gradient="Grad" in name)


def _rank(name: str, params: list[str], fields: Fields) -> int:
    ranked = fields["lastCandidateToRank"] - fields["firstCandidateToRank"]
    return rank_cycles(GC200, fields["totalCandidates"], ranked, fields["beamwidth"])


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
    r"ReduceM(ax|in)N?Class(Gather|Sparse)": _argmax,
    r"Dynamic(Update)?Slice[12]D": _dynamic,
    r"multiSlice|multiUpdateOp": _slice_function,
    r"MultiSlice|MultiUpdate|(Scaled)?MultiUpdateOp": _multi,
    r"Select(FromIntervals?|FromRowsInColumns)|Update(Columns|Intervals?)DEC": _intervals,
    r"SequenceSlice": _sequences,
    r"EncodeOneHot(CustomValues)?": _one_hot,
    r"HasNaNOrInf[12]D": _nan,
    r"Histogram[12]D": _histogram,
    r"Spline(Basis|Weighting)": _spline,
    r"ScalarMultiply[12]D(Inplace)?": _multiply,
    r"HadamardProd": lambda name, params, fields: hadamard_cycles(GC200, *params, fields["A"]),
    r"Iota": lambda name, params, fields: iota_cycles(GC200, *params, fields["out"]),
    r"NormaliseImage": lambda name, params, fields: normalise_image_cycles(GC200, params[0], fields["packedNPixels"]),
    r"CompareAndSwapAtDistance(KeyVal)?": _compare,
    r"HeapSortVertex": lambda name, params, fields: heap_sort_cycles(fields["out"], values=False),
    r"HeapSortVertexKV": lambda name, params, fields: heap_sort_cycles(fields["key"], values=True),
    "|".join(CONSTANT): lambda name, params, fields: CONSTANT[name],
    r"CTC(Alpha|Beta|GradGiven(Alpha|Beta))": _recursion,
    r"CTCRankCandidates": _rank,
    r"CTCReduceCandidates": lambda name, params, fields: join_cycles(GC200, fields["totalCandidates"]),
    r"CTCUpdate": lambda name, params, fields: update_cycles(GC200, fields["beamwidth"]),
    "|".join(FREE): lambda name, params, fields: 0,
    r"(Max|Sum)Pooling(Grad|GradientScale)?": _pooling,
    r"NonLinearity(Grad)?[12]D(InPlace)?": _nonlinearity,
    r"Loss(SumSquared|CrossEntropy)Transform": _loss,
    r"CalcAccuracy": lambda name, params, fields: accuracy_cycles(fields["maxPerBatch"]),
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
