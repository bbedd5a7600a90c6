"""A report as data: operations, the calls of each, the machine; written as JSON and read again."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ..errors import bad_argument, described
from ..planner.facts import Load, PlanFacts, Table, TileMemory
from ..planner.ladder import Temporaries
from ..planner.summary import Phase

__all__ = ["KINDS", "Call", "Operation", "Report", "moves"]

VERSION = 1
"""Of the JSON."""

KINDS = "operands", "results", "temporaries"
"""Of memory."""


_MOVING = "exchange", "transform", "broadcast", "rearrange", "move"


def moves(phase: str) -> bool:
    """Whether a phase moves numbers, by its name; else it computes.

    Examples
    --------
    >>> moves("exchange of partials"), moves("compute")
    (True, False)
    """
    return any(word in phase.lower() for word in _MOVING)


@dataclasses.dataclass(frozen=True)
class Operation:
    """What calls have in common that do the same by the same plan.

    Attributes
    ----------
    op, what, kernel : str
        As `Run` has them.
    lacking : str
        What the modelled machine of the profile lacks, so that the operation ran on this CPU.
    plan : PlanFacts
        What was decided, and the model's figures.
    flops, exchanged_bytes, temporary_bytes : int or None
        Multiplications and additions of products; bytes that modelled tiles receive; temporary bytes of this machine.
        None where they are not counted.
    read_bytes, written_bytes : int
        Of operands, each once, and of the result, in this machine's memory.
    threads : int
        Of this machine, that may share the work.
    loads : dict of str to Load
        How evenly the work is dealt out.
    """

    op: str
    what: str
    kernel: str
    lacking: str
    plan: PlanFacts
    flops: int | None
    exchanged_bytes: int | None
    temporary_bytes: int | None
    read_bytes: int
    written_bytes: int
    threads: int
    loads: dict[str, Load]

    @property
    def name(self) -> str:
        """The op with its shapes and formats."""
        return f"{self.op} {self.what}"

    @property
    def modelled(self) -> bool:
        """Whether it ran as a modelled machine would."""
        return self.plan.machine != "host"

    @property
    def temporary_use(self) -> int | None:
        """Temporary bytes that the limit is about: of a modelled tile, or of this CPU's threads."""
        if self.modelled or self.temporary_bytes is None:
            return self.plan.temporary_bytes
        return self.temporary_bytes

    @property
    def fits(self) -> bool:
        """Whether temporaries keep to the limit, and a modelled machine's fullest tile to its memory."""
        return self.plan.fits and (self.plan.limit is None or (self.temporary_use or 0) <= self.plan.limit)


@dataclasses.dataclass(frozen=True)
class Call:
    """One call.

    Attributes
    ----------
    operation, thread : int
        Places in the report's lists.
    start, end : float
        Seconds since the profile began.
    seconds : float
        Of the program alone.
    phases : dict of str to float
        Of them, by phase, where there are several.
    """

    operation: int
    thread: int
    start: float
    end: float
    seconds: float
    phases: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Report:
    """What ran and what it cost, as plain values: what `poplibs_py.Profile` shows, saves and compares.

    Attributes
    ----------
    title, made, library, machine : str
        The program's name, when it ran (UTC), this library's version, this machine.
    target : str
        The modelled machine that the profile names, or ``"host"``.
    peaks : dict of str to float
        Operations in a second of this CPU's units (``"float32"``, ``"bfloat16"``), and ``"memory"``, bytes that copies
        read and write in a second, as measured on one thread; empty where nothing needs them.
    threads : tuple of str
        Names of the threads that called.
    operations : tuple of Operation
        In the order of their first calls.
    calls : tuple of Call
        In the order in which they ended.
    """

    title: str
    made: str
    library: str
    machine: str
    target: str
    peaks: dict[str, float]
    threads: tuple[str, ...]
    operations: tuple[Operation, ...]
    calls: tuple[Call, ...]

    # Figures ---------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each operation is called: those of one name by the settings that tell them apart."""
        groups: dict[str, list[PlanFacts]] = {}
        for op in self.operations:
            groups.setdefault(op.name, []).append(op.plan)
        return tuple(op.name + _apart(op.plan.settings, groups[op.name]) for op in self.operations)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Calls of each operation."""
        counted = Counter(call.operation for call in self.calls)
        return tuple(counted[i] for i in range(len(self.operations)))

    @cached_property
    def wall_seconds(self) -> tuple[float, ...]:
        """Seconds of each operation's calls on this machine."""
        seconds = [0.0] * len(self.operations)
        for call in self.calls:
            seconds[call.operation] += call.seconds
        return tuple(seconds)

    @cached_property
    def seconds(self) -> tuple[float, ...]:
        """Seconds of each operation's calls: of a modelled one by the model, of others as measured."""
        return tuple(count * op.plan.modelled_seconds if op.modelled else wall
                     for op, count, wall in zip(self.operations, self.counts, self.wall_seconds, strict=True))

    def call_seconds(self, i: int) -> float:
        """Return the seconds of a call of an operation, on the average."""
        return self.seconds[i] / max(1, self.counts[i])

    @property
    def modelled(self) -> bool:
        """Whether any operation ran as a modelled machine would."""
        return any(op.modelled for op in self.operations)

    @property
    def where(self) -> str:
        """The modelled machines that operations ran on, or this CPU."""
        machines = dict.fromkeys(op.plan.machine for op in self.operations if op.modelled)
        return " and ".join(machines) or "this CPU"

    def subjects(self) -> list[int]:
        """Return the operations that the report is about, those that take most time first.

        Where some are modelled it is about those; the others ran on this CPU.
        """
        chosen = [i for i, op in enumerate(self.operations) if op.modelled == self.modelled]
        return sorted(chosen, key=lambda i: -self.seconds[i])

    def share(self, i: int) -> float:
        """Return an operation's share of the time of all operations of its machine."""
        whole = self._whole[self.operations[i].modelled]
        return self.seconds[i] / whole if whole else 0.0

    @cached_property
    def _whole(self) -> tuple[float, float]:
        """Seconds of all operations of this machine, and of all modelled ones."""
        both = [0.0, 0.0]
        for op, seconds in zip(self.operations, self.seconds, strict=True):
            both[op.modelled] += seconds
        return both[0], both[1]

    # JSON ------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the report as JSON; plans and operations are written once each."""
        plans = list(dict.fromkeys(_Same(op.plan) for op in self.operations))
        places = {plan: i for i, plan in enumerate(plans)}
        return json.dumps({"poplibs_report": VERSION, **{name: getattr(self, name) for name in _HEADS},
                           "plans": [dataclasses.asdict(plan.value) for plan in plans],
                           "operations": [_written(op) | {"plan": places[_Same(op.plan)]} for op in self.operations],
                           "calls": [dataclasses.astuple(call) for call in self.calls]}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidArgumentError
            For anything else.
        """
        try:
            fields = json.loads(text)
            version = fields.get("poplibs_report")
            if version != VERSION:
                raise ValueError(f"its poplibs_report is {version}, not {VERSION}")
            plans = [_plan(plan) for plan in fields["plans"]]
            operations = tuple(_operation(op, plans) for op in fields["operations"])
            calls = tuple(Call(*call) for call in fields["calls"])
            heads = {name: fields[name] for name in _HEADS} | {"threads": tuple(fields["threads"])}
            report = cls(**heads, operations=operations, calls=calls)
            _check(report)
            return report
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise bad_argument("text", text, f"the JSON of a report ({described(str(error))})") from error


_HEADS = "title", "made", "library", "machine", "target", "peaks", "threads"


def _apart(settings: Mapping[str, str], plans: Sequence[PlanFacts]) -> str:
    """The settings that are not those of all plans, in words."""
    said = [f"{name} {value}" for name, value in settings.items()
            if any(plan.settings.get(name) != value for plan in plans)]
    return f" ({', '.join(said)})" * bool(said)


class _Same:
    """A plan's facts, found again by identity or by value: they hold dicts, which cannot be hashed."""

    def __init__(self, value: PlanFacts) -> None:
        self.value = value
        self._hash = hash((value.problem, value.cycles, value.temporary_bytes, value.limit))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and (self.value is other.value or self.value == other.value)


def _written(op: Operation) -> dict[str, Any]:
    fields = {field.name: getattr(op, field.name) for field in dataclasses.fields(op) if field.name != "plan"}
    return fields | {"loads": {name: dataclasses.asdict(load) for name, load in op.loads.items()}}


def _loads(fields: Mapping[str, Any]) -> dict[str, Load]:
    return {name: Load(**load | {"bins": tuple(load["bins"])}) for name, load in fields.items()}


def _plan(fields: dict[str, Any]) -> PlanFacts:
    memory, tables, taken = fields["memory"], fields["tables"], fields["temporaries"]
    return PlanFacts(**fields | {
        "considered": tuple(map(tuple, fields["considered"])),
        "phases": tuple(Phase(**phase) for phase in fields["phases"]),
        "live": tuple(fields["live"]),
        "temporaries": None if taken is None else Temporaries(**taken),
        "memory": None if memory is None else TileMemory(
            {kind: tuple(map(tuple, runs)) for kind, runs in memory["kinds"].items()}),
        "loads": _loads(fields["loads"]),
        "tables": tuple(Table(t["title"], tuple(t["heads"]), tuple(map(tuple, t["rows"]))) for t in tables),
    })


def _operation(fields: dict[str, Any], plans: Sequence[PlanFacts]) -> Operation:
    return Operation(**fields | {"plan": plans[fields["plan"]], "loads": _loads(fields["loads"])})


def _check(report: Report) -> None:
    """Raise unless the calls and figures are of the kinds that a reader relies on."""
    for call in report.calls:
        if not (0 <= call.operation < len(report.operations) and 0 <= call.thread < len(report.threads)):
            raise ValueError("a call of no operation or thread")
        if not all(isinstance(t, int | float) for t in (call.start, call.end, call.seconds, *call.phases.values())):
            raise ValueError("a call at no time")
    for op in report.operations:
        numbers = op.flops, op.exchanged_bytes, op.temporary_bytes, op.plan.temporary_bytes, op.plan.limit
        if not all(n is None or isinstance(n, int) for n in (*numbers, op.plan.cycles, op.read_bytes, op.threads)):
            raise ValueError("a figure that is no number")
        if len(op.plan.live) != len(op.plan.phases):
            raise ValueError("phases without what lives in them")
        if not all(isinstance(text, str) for text in (op.op, op.what, op.kernel, op.lacking, op.plan.problem)):
            raise ValueError("a name that is no text")
