"""Steps of arithmetic that one kernel does: a number stays in registers from one to the next, rounded by each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...kernels.records import numbers_of
from .steps import Step

_MOST = 16  # steps, and constants, of a kernel: POP_ARITHMETIC_STEPS
_WORDS = numbers_of("arithmetic")
_OF_TWO = {op: _WORDS[op] for op in ("add", "sub", "from", "mul")}
_OF_PRODUCT = {op: _WORDS[f"{op}_product"] for op in ("add", "sub", "from")}  # which is rounded first
_OF_ONE = {op: _WORDS[op] for op in ("neg", "relu")}
_TIMES = {op: _WORDS[f"times_{op}"] for op in ("add", "sub", "from")}  # the number times another, rounded first
_TIMES_PRODUCT = {op: _WORDS[f"times_{op}_product"] for op in ("add", "sub", "from")}
_COMPARISONS = ("gt", "gteq", "eq")
_TURNED = {"lt": "gt", "lteq": "gteq"}

_Part = tuple[int, int, int, int]


class _Run(NamedTuple):
    """Where a number begins, and what is done to it: the operation and its operands."""

    first: int
    parts: tuple[_Part, ...] = ()

    def then(self, what: int, *operands: int) -> _Run:
        a, b, c = (*operands, *(self.first,) * (3 - len(operands)))
        return _Run(self.first, (*self.parts, (what, a, b, c)))

    def values(self) -> list[int]:
        """All that is read, once each."""
        return list(dict.fromkeys((self.first, *(i for part in self.parts for i in part[1:]))))


class _Joining:
    """What may be joined so far, of values that one step alone reads: runs and comparisons."""

    def __init__(self, steps: Sequence[Step], lanes: Sequence[str], operands: int,
                 constants: Mapping[int, int]) -> None:
        self.lanes, self.operands, self.constants = lanes, operands, constants
        self.readers = Counter(i for step in steps for i in step.reads)
        self.runs: dict[int, _Run] = {}
        self.comparisons: dict[int, tuple[str, tuple[int, ...]]] = {}

    def single(self, value: int) -> bool:
        return value >= self.operands and self.readers[value] == 1

    def numbers(self, values: Sequence[int]) -> bool:
        """Whether all are FP32 numbers, and not all of them constants."""
        return all(self.lanes[i] == "float32" for i in values) and any(i not in self.constants for i in values)

    def before(self, value: int, more: Sequence[int] = ()) -> _Run:
        """The run that makes a value, where there is room for a step more; else one that begins with it."""
        run = self.runs.get(value)
        if run is None or len(run.parts) == _MOST or len({*run.values(), *more} & self.constants.keys()) > _MOST:
            return _Run(value)
        return run

    def run(self, step: Step) -> _Run | None:
        """A step as a run of one or more; None for what is none."""
        if step.op in _OF_TWO and self.numbers(step.reads):
            return self._of_two(step.op, *step.reads)
        if step.op in _OF_ONE and self.numbers(step.reads):
            return self.before(step.reads[0]).then(_OF_ONE[step.op])
        if step.op == "select" and step.reads[2] in self.comparisons and self.numbers(step.reads[:2]):
            return self._choice(*step.reads)
        return None

    def _of_two(self, op: str, left: int, right: int) -> _Run:
        sizes = [len(self.before(i, (left, right)).parts) for i in (left, right)]
        turned = sizes[1] > sizes[0] or (left in self.constants and not sizes[1])
        value, other = (right, left) if turned else (left, right)
        op = "from" if turned and op == "sub" else op
        beside = self.runs.get(other, _Run(other))
        if op in _OF_PRODUCT and len(beside.parts) == 1 and beside.parts[0][0] == _OF_TWO["mul"]:
            factors = beside.first, beside.parts[0][1]
            return self._after(self.before(value, factors), op, *factors)
        return self._after(self.before(value, (other,)), op, other)

    def _after(self, run: _Run, op: str, *others: int) -> _Run:
        """A run and one operation more with a number or a product of two; in one step with a product before it."""
        table, both = (_OF_TWO, _TIMES) if len(others) == 1 else (_OF_PRODUCT, _TIMES_PRODUCT)
        if op in both and run.parts and run.parts[-1][0] == _OF_TWO["mul"]:
            operands = run.parts[-1][1], *others
            if len(others) == 1 or not self.constants.keys() & {*operands}:
                return run._replace(parts=run.parts[:-1]).then(both[op], *operands)
        return run.then(table[op], *others)

    def _choice(self, left: int, right: int, condition: int) -> _Run:
        compare, (a, b) = self.comparisons[condition]
        if compare in _TURNED:
            compare, a, b = _TURNED[compare], b, a
        sizes = [len(self.before(i, (a, b, left, right)).parts) for i in (left, right)]
        value, other = (left, right) if sizes[0] > sizes[1] else (right, left)
        where = (value == right) == (compare != "neq")  # the other where it holds
        what = _WORDS[f"{'if' if where else 'unless'}_{'eq' if compare == 'neq' else compare}"]
        return self.before(value, (a, b, other)).then(what, a, b, other)


def joined(steps: Sequence[Step], lanes: Sequence[str], operands: int, constants: Mapping[int, int]) -> list[Step]:
    """Return the steps, those of arithmetic whose results are the next one's alone taken together.

    Parameters
    ----------
    steps : sequence of Step
    lanes : sequence of str
        Of their values.
    operands : int
        Values before this are arrays of the call.
    constants : mapping
        Values that are numbers, and which of the chain's.
    """
    work, made, gone = _Joining(steps, lanes, operands, constants), [], set[int]()
    for step in steps:
        value, run = step.writes[0], work.run(step)
        if run is None:
            made.append(step)
            if step.op in {*_COMPARISONS, *_TURNED, "neq"} and work.numbers(step.reads) and work.single(value):
                work.comparisons[value] = step.op, step.reads
            continue
        read = run.values()
        gone.update(i for i in step.reads if i not in read)
        if work.single(value):
            work.runs[value] = run
        made.append(_step(step, run, constants))
    return [step for step in made if step.writes[0] not in gone]


def _step(step: Step, run: _Run, constants: Mapping[int, int]) -> Step:
    """The step of a run: the operation itself where there is one alone."""
    what = run.parts[0][0]
    if len(run.parts) == 1 and (what in _OF_TWO.values() or what in _OF_ONE.values()):
        return step
    values = run.values()
    reads, numbers = ([i for i in values if (i in constants) == constant] for constant in (False, True))
    place = {i: at for at, i in enumerate(reads)} | {i: ~at for at, i in enumerate(numbers)}
    words = [word for part in run.parts for word in (part[0], *(place[i] for i in part[1:]))]
    plan = (len(run.parts), len(numbers), place[run.first], *words, *(constants[i] for i in numbers))
    return Step("arithmetic", tuple(reads), step.writes, plan=plan)
