"""An embedding on this CPU: what it runs on arrays in C order, how many updates it sorts at a time, what that takes."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import bad_argument
from ....ops.one_kernel import OneKernel
from ....planner import Explanation, Memory, Temporaries
from ....planner.explain import Explained, NoFlops
from ....planner.ladder import HostLimited
from ....target import Target
from ...making.made import element_of
from ..lower import Axis, Component, SliceParams, Window, lower, within_memory
from .options import EmbeddingOptions
from .params import EmbeddingParams

UPDATES = {"add": "add", "mul": "mul", "max": "max", "none": "set"}
"""What an update does, by PopLibs' ``operationForUpdate``."""

_INDEX_BYTES = 8


@dataclass(frozen=True)
class HostEmbeddingPlan(HostLimited, NoFlops, Explained):
    """How rows of a table are read and updated by index on this CPU. ``print(plan)`` tells it.

    Attributes
    ----------
    params : EmbeddingParams
        Of a table in C order.
    options : EmbeddingOptions
    target : Target
    room : int
        Updates that a thread sorts at a time; 0 where they are taken as they come.
    temporaries : Temporaries
        What reading or updating needs beside its operands, whichever needs more.
    """

    params: EmbeddingParams
    options: EmbeddingOptions
    target: Target
    room: int
    temporaries: Temporaries

    @property
    def memory(self) -> Memory:
        """What is said about temporary memory."""
        return _memory(self.options)

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.temporaries.needed

    @property
    def compute_format(self) -> str:
        """Nothing: sums are in FP32."""
        return ""

    @property
    def threads(self) -> int:
        """Threads that share the work of the largest call."""
        return max(program.threads for program in self.programs().values())

    def programs(self) -> dict[str, OneKernel]:
        """Return what reads rows and what updates them, those of the two that are used."""
        made, o = {}, self.options
        if o.used_for_slice:
            made["slice"] = lower(_params(self.params), self.target.tiles)
        if o.used_for_update:
            params = _params(self.params, UPDATES[o.operation_for_update])
            made["update"] = lower(params._replace(room=self.room), self.target.tiles)
        return made

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p, programs = self.params, self.programs()
        decided = {}
        for name, program in programs.items():
            decided[name] = f"{program.kernel}, {program.threads} threads, {program.decided['way']}"
        decided["memory"] = str(self.temporaries)
        tables = f"{p.groups} x " * (p.groups > 1)
        problem = f"embedding {tables}[{p.entries:,}, {p.width:,}] {p.data_type}, {p.most_lookups:,} lookups on host"
        return Explanation(problem, decided, next(reversed(programs.values())).explain().considered)


def _memory(options: EmbeddingOptions) -> Memory:
    """The limit on temporary memory: none by default."""
    return Memory(options.available_memory_proportion, options.strict_memory)


def _params(p: EmbeddingParams, update: str = "") -> SliceParams:
    """The largest call on arrays in C order."""
    element = element_of(p.data_type, None, None)
    row, lookups = p.width * element.itemsize, p.most_lookups
    axes = (Axis(p.groups, _INDEX_BYTES * lookups, p.entries * row, lookups * row), Axis(lookups, _INDEX_BYTES, 0, row))
    windows = (Window(p.width, element.itemsize, element.itemsize),)
    return SliceParams("put" if update else "take", "raise", "int64", axes[p.groups == 1:],
                       (Component(0, p.entries, row),), windows, element, element, update=update or "set")


def plan_host(params: EmbeddingParams, options: EmbeddingOptions, target: Target) -> HostEmbeddingPlan:
    """Plan an embedding on this CPU; where no plan keeps to the limit on memory, warn or raise.

    Parameters
    ----------
    params : EmbeddingParams
        Its `data_type` is the name of a format, or of a dtype of integers or truth values.
    options : EmbeddingOptions
    target : Target
        This CPU.
    """
    if options.plan_constraints:
        raise bad_argument("plan_constraints", dict(options.plan_constraints), "none on this CPU, which cuts no table")
    if options.partial_type == "half":
        raise bad_argument("partial_type", "half", "'float' on this CPU, which sums in FP32")
    found: dict[str, OneKernel] = {}
    memory, updates = _memory(options), UPDATES[options.operation_for_update]
    if options.used_for_update and updates != "set" and params.data_type == "bool":
        raise bad_argument("operation_for_update", options.operation_for_update, "'none' for truth values")
    for word in [updates] * options.used_for_update + [""] * options.used_for_slice:
        made = found[word] = within_memory("plan_embedding", _params(params, word), memory, target)
        if made.temporaries is not None and not made.temporaries.fits:
            memory = Memory()  # which was told of
    update = found[updates].params if options.used_for_update else None
    room = 0 if update is None else (update.room or update.lookups) * update.grouped
    most = Temporaries.worst(made.temporaries for made in found.values() if made.temporaries is not None)
    assert most is not None, "options say that one of the two is used"
    return HostEmbeddingPlan(params, options, target, room, most)
