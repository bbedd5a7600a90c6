"""A convolution's plan: everything needed to run it, and what it costs."""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Iterator
from itertools import chain, pairwise
from math import prod
from typing import Any

from ...checks import all_of, instance, one_of, whole
from ...errors import bad_argument, bad_type, described
from ...ops import changed_plan, check_fields
from ...planner.explain import Explanation, explained
from ...planner.ladder import Limited, Temporaries
from ...planner.summary import PlanSummary, compared, summarised
from ...target import TYPE_SIZES, LinearMapping
from .constraints import ConvConstraints
from .model import ConvTypes
from .problem import ConvProblem
from .transforms import ConvTransform
from .vertices import METHODS, Method

#: Itemised costs of one pass, by PopLibs' names; zeros are left out.
Costs = dict[str, int]

_MOST = (1 << 63) - 1  # of what a plan counts

ORDERS = ("STANDARD", "FC_WU", "FC_BWD_AS_CONV")
DIRECTIONS = ("ASCENDING", "DESCENDING")

#: Phases of one pass in the order they run: label, cycles, bytes. Names are keys of `Costs`.
PHASES = (
    ("broadcast input before the loop",
     ("broadcastInputBeforeLoopCopyCycles", "broadcastInputBeforeLoopExchangeCycles"),
     "broadcastInputBeforeLoopTempBytes"),
    ("rearrange weights before slicing", ("rearrangeBeforeSliceCycles",), "rearrangeBeforeSliceTempBytes"),
    ("dynamic slice", ("dynamicSliceCycles",), None),
    ("transform", ("totalTransformCopyCycles", "totalTransformExchangeCycles"), "totalTransformTempBytes"),
    ("exchange", ("totalExchangeCycles",), None),
    ("pad on the tile", ("tileLevelTransformCycles",), "tileLevelTransformTempBytes"),
    ("cast inputs", ("inputsCastCycles",), None),
    ("compute", ("partialCalcCycles",), "convTempBytes"),
    ("reduce", ("reduceCycles",), "reduceTempBytes"),
    ("dynamic update", ("dynamicUpdateCycles",), None),
    ("add in place", ("addInPlaceCycles",), "addInPlaceTempBytes"),
    ("cast output", ("outputCastCycles",), None),
)


@dataclasses.dataclass(frozen=True)
class Split:
    """How often an axis of channels is cut, in a loop and across tiles."""

    serial: int
    parallel: int


@dataclasses.dataclass(frozen=True)
class Partition:
    """How the work is cut across tiles, and the grains below which nothing is cut."""

    field_split: tuple[int, ...]
    batch_split: int
    out_chan_split: Split
    kernel_split: tuple[int, ...]
    in_chan_split: Split
    conv_group_split: int
    field_grain: tuple[int, ...]
    conv_group_grain: int
    in_chan_grain: int
    out_chan_grain: int

    @property
    def total_parallel(self) -> int:
        """Tiles used."""
        return (
            prod(self.field_split)
            * prod(self.kernel_split)
            * self.batch_split
            * self.conv_group_split
            * self.out_chan_split.parallel
            * self.in_chan_split.parallel
        )

    @property
    def total_serial(self) -> int:
        """Turns of the serial loop."""
        return self.out_chan_split.serial * self.in_chan_split.serial

    def to_dict(self) -> dict[str, Any]:
        """Short names, as the golden plans spell them."""
        return {
            "field": list(self.field_split),
            "batch": self.batch_split,
            "oc": {"s": self.out_chan_split.serial, "p": self.out_chan_split.parallel},
            "kernel": list(self.kernel_split),
            "ic": {"s": self.in_chan_split.serial, "p": self.in_chan_split.parallel},
            "g": self.conv_group_split,
            "grain": {"field": list(self.field_grain), "g": self.conv_group_grain, "ic": self.in_chan_grain,
                      "oc": self.out_chan_grain},
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Partition:
        """Read what `to_dict` wrote."""
        try:
            f, grain = fields, fields["grain"]
            return cls(tuple(f["field"]), f["batch"], Split(f["oc"]["s"], f["oc"]["p"]), tuple(f["kernel"]),
                       Split(f["ic"]["s"], f["ic"]["p"]), f["g"], tuple(grain["field"]), grain["g"], grain["ic"],
                       grain["oc"])
        except Exception:  # a mapping of somebody else's raises what it likes
            raise bad_type("fields", fields, "what to_dict returned") from None


def tile_ranges(extent: int, split: int, grain: int = 1) -> list[tuple[int, int]]:
    """Elements [begin, end) of an axis of `extent` elements that each of `split` parts holds.

    Grains are dealt out evenly in order: part i starts at grain ``floor(i * grains / split)``.

    Examples
    --------
    >>> from poplibs_py.poplin.tile_conv import tile_ranges
    >>> tile_ranges(10, 3, grain=2)
    [(0, 2), (2, 6), (6, 10)]
    """
    extent, split = whole("extent", extent, 0, 1 << 31), whole("split", split, 1, 1 << 20)
    grain = whole("grain", grain, 1, 1 << 31)
    return list(pairwise(LinearMapping(extent, grain, split).edges().tolist()))


@dataclasses.dataclass(frozen=True)
class ConvPlan(Limited):
    """A plan for one pass, with its modelled costs.

    Corresponds to PopLibs' ``Plan`` and ``Cost``. ``print(plan)`` is a table; `explain` (on the result of
    `plan_convolution`) lists what else was considered.

    Parameters
    ----------
    method : Method
        How a tile computes.
    conv_groups_per_group, in_chans_per_group, partial_chans_per_group : int
        Channel groupings of the method.
    transforms : tuple of ConvTransform
        At the system level and on the tile.
    partitions : tuple of Partition
        One: the split across tiles.
    types : tuple of ConvTypes
        Partial and result types at the system level and on the tile.
    costs : dict
        Itemised cycles and bytes of this pass.
    limit, raised : int or None
        The memory limit asked for, and what became of it, as `temporaries` has them.
    backward_costs, weight_update_costs : dict or None
        Of a joint plan.
    additional : tuple of ConvPlan
        Backward and weight-update plans, where planning them apart won.
    joint : bool
        Whether the costs of the backward pass and the weight update are in it.
    broadcast_input_before_loop : bool
        Whether the input is moved once, before the serial loop.
    total_macs, peak_macs_per_cycle, target_tiles : int
        Of the problem, of the method on a tile, of the machine.
    start_tile, direction, order : int, str, str
        The tile that parts are dealt to first, which way it goes from there, and in which order.
    problem : ConvProblem or None
        What was planned.
    """

    method: Method
    conv_groups_per_group: int
    in_chans_per_group: int
    partial_chans_per_group: int
    transforms: tuple[ConvTransform, ConvTransform]
    partitions: tuple[Partition, ...]
    types: tuple[ConvTypes, ConvTypes]
    costs: Costs = dataclasses.field(hash=False)
    limit: int | None
    total_macs: int = 0
    peak_macs_per_cycle: int = 1
    target_tiles: int = 0
    start_tile: int = 0
    direction: str = "ASCENDING"
    order: str = "STANDARD"
    joint: bool = False
    broadcast_input_before_loop: bool = False
    backward_costs: Costs | None = dataclasses.field(default=None, hash=False)
    weight_update_costs: Costs | None = dataclasses.field(default=None, hash=False)
    additional: tuple[ConvPlan, ...] = ()
    problem: ConvProblem | None = None
    raised: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, fits, allowed in (("direction", self.direction in DIRECTIONS, ", ".join(DIRECTIONS)),
                                    ("order", self.order in ORDERS, ", ".join(ORDERS)),
                                    ("partitions", len(self.partitions) > 0, "one at least"),
                                    ("peak_macs_per_cycle", self.peak_macs_per_cycle > 0, "one at least"),
                                    ("total_macs", 0 <= self.total_macs <= _MOST, f"from 0 to {_MOST}")):
            if not fits:
                raise changed_plan(name, getattr(self, name), allowed)

    # Figures ---------------------------------------------------------------------------------------

    @property
    def partition(self) -> Partition:
        """The split across tiles."""
        return self.partitions[0]

    @property
    def tiles_used(self) -> int:
        """Tiles that compute."""
        return self.partition.total_parallel

    @property
    def serial_splits(self) -> int:
        """Turns of the serial loop."""
        return self.partition.total_serial

    @property
    def flops(self) -> int:
        """Multiplications and additions of one pass."""
        return 2 * self.total_macs

    def _passes(self) -> list[Costs]:
        return [c for c in (self.costs, self.backward_costs, self.weight_update_costs) if c is not None]

    @property
    def cycles(self) -> int:
        """Modelled tile cycles; of a joint plan, of all three passes."""
        return sum(c.get("totalCycles", 0) for c in self._passes())

    @property
    def temp_bytes(self) -> int:
        """Most temporary bytes on a tile; of a joint plan, in any pass."""
        return max(c.get("totalTempBytes", 0) for c in self._passes())

    @property
    def total_tiles(self) -> int:
        """Tiles used, most of any pass."""
        return max(c.get("totalTiles", 0) for c in self._passes())

    @property
    def temporaries(self) -> Temporaries:
        """Temporary bytes of the tile that needs most."""
        return Temporaries(self.temp_bytes, self.limit, self.raised, "a tile")

    @property
    def summary(self) -> PlanSummary:
        """What it says of itself: problem, splits, cycles, time, rate, memory, load. ``print(plan)`` shows it."""
        return summarised(self)

    def compare(self, *others: ConvPlan) -> str:
        """Return a table of this plan and others side by side.

        Examples
        --------
        >>> from poplibs_py import poplin
        >>> gc200, bow = (poplin.plan_matmul((64, 64), (64, 64), dtype="half", target=t) for t in ("gc200", "bow"))
        >>> print("\\n".join(gc200.compare(bow).splitlines()[4:6]))
        cycles       641                                                 641
        time         0.5 us                                              0.3 us
        """
        all_of("others", others, ConvPlan, "plans of a modelled machine")
        return compared([plan.summary for plan in (self, *others)])

    def explain(self) -> Explanation:
        """Tell choice, cost by phase and memory, and every candidate with its own best cost and why it lost.

        `print` shows the ten best candidates, `Explanation.details` has all.
        It plans each candidate again by itself, so it takes longer than planning did.
        """
        return explained(self)

    def tile_indices(self) -> Iterator[int]:
        """Tiles in the order that parts are dealt to them, from the start tile, wrapping."""
        step = 1 if self.direction == "ASCENDING" else -1
        for i in range(self.tiles_used):
            yield (self.start_tile + step * i) % max(1, self.target_tiles)

    def constraints(self) -> ConvConstraints:
        """Constraints that only this plan meets: PopLibs' ``getPlanConstraints``.

        Dimensions are counted as the plan has them, after PopLibs has added one to a convolution of one dimension. Its
        own check of ``expandDims`` counts those of the problem, so `plan_convolution` refuses, as PopLibs does,
        constraints in which such a convolution expands its only dimension.
        """
        p = self.partition
        tree: dict[str, Any] = {}
        for level, t in enumerate(self.transforms):
            tree[str(level)] = {
                "transform": {"swapOperands": t.swap_operands, "expandDims": list(t.expand_dims),
                              "outChanFlattenDims": list(t.out_chan_flatten_dims),
                              "combineConvGroupsFactor": [t.combine_conv_groups_factor]}
            }
        tree["0"]["partition"] = {"fieldSplit": {str(i): n for i, n in enumerate(p.field_split)},
                                  "batchSplit": p.batch_split, "outChanSplit": dataclasses.asdict(p.out_chan_split),
                                  "kernelSplit": {str(i): n for i, n in enumerate(p.kernel_split)},
                                  "inChanSplit": dataclasses.asdict(p.in_chan_split),
                                  "convGroupSplit": p.conv_group_split}
        tree["method"] = self.method.constraints()
        tree["convGroupsPerGroup"] = self.conv_groups_per_group
        tree["inChansPerGroup"] = self.in_chans_per_group
        tree["partialChansPerGroup"] = self.partial_chans_per_group
        return ConvConstraints.parse(tree)

    # Forms -----------------------------------------------------------------------------------------

    def golden(self) -> dict[str, Any]:
        """This plan with the field names of the golden outputs."""
        m, p = self.method, self.partition
        fields: dict[str, Any] = {"method": m.to_dict(), "G": self.conv_groups_per_group, "Ci": self.in_chans_per_group,
                                  "Co": self.partial_chans_per_group, "joint": int(self.joint),
                                  "bcast": int(self.broadcast_input_before_loop), "order": ORDERS.index(self.order),
                                  "startTile": self.start_tile, "dir": self.direction, "par": p.total_parallel,
                                  "ser": p.total_serial}
        if m.type == "AMP":
            fields |= {"convUnits": m.conv_units, "loadElems": m.input_load_elems}
        elif m.type == "SLIC":
            fields |= {"window": m.window_width, "chains": m.chains}
        elif m.type == "HMAC":
            fields |= {"limited": int(m.limited)}
        fields["transforms"] = [t.to_dict() for t in self.transforms]
        fields["partitions"] = [p.to_dict() for p in self.partitions]
        fields["types"] = [str(t) for t in self.types]
        fields["totalCycles"] = self.cycles
        fields["totalTempBytes"] = self.temp_bytes
        fields["totalTiles"] = self.total_tiles
        fields["cost"] = dict(self.costs)
        if self.backward_costs is not None:
            fields["bwd"] = dict(self.backward_costs)
        if self.weight_update_costs is not None:
            fields["wu"] = dict(self.weight_update_costs)
        return fields

    def to_json(self) -> str:
        """Return the plan as JSON: the golden fields, and what else `from_json` needs.

        Examples
        --------
        >>> from poplibs_py.poplin.tile_conv import ConvPlan, matmul_params, plan_convolution
        >>> plan = plan_convolution(matmul_params(1, 64, 64, 64, "half"), target="gc200")
        >>> ConvPlan.from_json(plan.to_json()) == plan
        True
        """
        return json.dumps(self._dict(), default=operator.index)

    def _dict(self) -> dict[str, Any]:
        extra = ("limit", "raised", "total_macs", "peak_macs_per_cycle", "target_tiles")
        fields = self.golden() | {name: getattr(self, name) for name in extra}
        fields["additional"] = [plan._dict() for plan in self.additional]
        fields["summary"] = None if self.problem is None else self.summary.to_dict()
        fields["problem"] = None if self.problem is None else self.problem.to_dict()
        return fields

    @classmethod
    def from_json(cls, text: str) -> ConvPlan:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidArgumentError
            For anything else, such as a word where a number is due, or figures that contradict the costs beside them.
        """
        try:
            fields = json.loads(text)
            plan = cls._from_dict(fields)
            _check_values(plan)
            written = json.loads(plan.to_json())
            wrong = [key for key, value in written.items()
                     if value is not None and fields.get(key, value) != value]  # no summary without the problem
            if wrong:
                raise ValueError(f"{', '.join(wrong)} contradicting what is beside")
            return plan
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise bad_argument("text", text, f"the JSON of a plan ({described(str(error))})") from error

    @classmethod
    def _from_dict(cls, f: dict[str, Any]) -> ConvPlan:
        system, tile = (ConvTransform.from_dict(t) for t in f["transforms"])
        types = [ConvTypes(*t.split("/")) for t in f["types"]]
        return cls(Method.from_dict(f["method"]), f["G"], f["Ci"], f["Co"], (system, tile),
                   tuple(Partition.from_dict(p) for p in f["partitions"]), (types[0], types[1]), f["cost"], f["limit"],
                   f["total_macs"], f["peak_macs_per_cycle"], f["target_tiles"], f["startTile"], f["dir"],
                   ORDERS[f["order"]], bool(f["joint"]), bool(f["bcast"]), f.get("bwd"), f.get("wu"),
                   tuple(cls._from_dict(a) for a in f["additional"]),
                   None if f["problem"] is None else ConvProblem.from_dict(f["problem"]), f["raised"])

    def __str__(self) -> str:
        return str(self.summary)


_KNOWN = {"direction": DIRECTIONS, "order": ORDERS, "type": METHODS, "types": tuple(TYPE_SIZES)}


def _check_values(part: Any) -> None:
    """Raise unless every number of a plan, or of a part of one, counts something, and every word is a known one."""
    for name, kind in type(part).__annotations__.items():
        value = getattr(part, name)
        if name in _KNOWN:
            for word in chain(*value) if name == "types" else (value,):
                one_of(name, word, _KNOWN[name])
        elif "bool" in str(kind):  # a NamedTuple wraps the text
            instance(name, value, bool, "true or false")
        elif name.endswith("costs"):
            for number in (value or {}).values():
                whole(name, number, 0, _MOST)
        elif name != "problem" and not (value is None and "None" in str(kind)):  # a problem checks itself
            for inner in (value,) if hasattr(value, "__annotations__") or not isinstance(value, tuple) else value:
                if hasattr(inner, "__annotations__"):
                    _check_values(inner)
                else:
                    whole(name, inner, 0, _MOST)
