"""From an expression to the strided driver's steps: types, rewrites, conversions, one step for each operation.

A number is computed in FP32, whatever its format; rounded at each step, as PopLibs' separate operations do, it is of
its format in between. Integers and truth values are of their own types.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedError, bad_argument, bad_type
from ...formats import BF16, FP16, FP32, Format
from ...kernels import kernels
from ...memo import remembered, tabled
from ..elementwise.promotion import BOOL, Element, allowed_for, meeting, typed
from ..elementwise.table import ELEMENTWISE, ElementwiseOp
from ..expr import Expression, const, postorder
from ..strided.arithmetic import joined
from ..strided.steps import MOST_VALUES, Chain, Number, Step, kernel_name

_HALVES = (FP16, BF16)  # kernels take and give them as they lie


class Lowered(NamedTuple):
    """An expression for operands of some types.

    Attributes
    ----------
    chain : Chain
    elements : tuple of Format or numpy.dtype
        Of the outputs, where nothing else is asked for.
    """

    chain: Chain
    elements: tuple[Element, ...]


class Value(NamedTuple):
    """The number of a chain's value, its lane and its type. Constants have no number until somebody reads them."""

    number: int
    lane: str
    element: Element


def typed_op(node: Expression, elements: Sequence[Element | None]) -> tuple[ElementwiseOp, Element]:
    """The operation of an expression, and the type that its operands meet in.

    Parameters
    ----------
    node : Expression
    elements : sequence
        The operands' types; None for constants.
    """
    name = _operation(node.op, elements)
    row = ELEMENTWISE[name]
    arrays, numbers = {}, {}
    for key, arg, element in zip(row.operands, node.args, elements, strict=True):
        label = f"{key} of {name} in the expression"
        if key in row.conditions:
            if element not in (BOOL, None) or (element is None and type(arg.value) is not bool):
                raise bad_type(label, f"numbers of {element}" if element else arg.value, "truth values")
        elif element is None:
            numbers[label] = np.asarray(_value_of(arg))
        else:
            arrays[label] = element
    return row, meeting(arrays, numbers, row.kinds, allowed_for(row.kinds))


def _operation(op: str, elements: Sequence[Element | None]) -> str:
    """An operation's name, of operators by the types of their operands."""
    known = [e for e in elements if e is not None]
    truths = bool(known) and all(e == BOOL for e in known)
    if op == "/":
        return "div"
    if op == ">>":
        signed = any(not isinstance(e, Format) and e.kind == "i" for e in known)
        return "shift_right_sign_extend" if signed else "shift_right"
    names = {"&": ("bitwise_and", "logical_and"), "|": ("bitwise_or", "logical_or"), "^": ("bitwise_xor", "neq"),
             "~": ("bitwise_not", "logical_not")}  # fmt: skip
    return names[op][truths] if op in names else op


def _value_of(node: Expression) -> Any:
    """A constant's value, or one that is taken as it is."""
    return node.value[2] if node.op == "number" else node.value


@tabled(256)
def _served(op: str) -> frozenset[str]:
    """The formats that an operation has kernels for."""
    return frozenset(formats for k in kernels("elementwise") if k.op == op for formats in k.served)


class _Lowering:
    """What is lowered so far."""

    def __init__(self, elements: tuple[Element, ...], outputs: int, rounded: bool, relaxed: bool) -> None:
        self.rounded, self.relaxed = rounded, relaxed
        self.lanes = [self.own_lane(element) for element in elements] + [""] * outputs
        self.operands = [Value(i, self.lanes[i], element) for i, element in enumerate(elements)]
        self.outputs = range(len(elements), len(elements) + outputs)
        self.steps: list[Step] = []
        self.constants: dict[Number, int] = {}
        self.numbers: dict[int, Number] = {}
        self.converted: dict[tuple[int, str], Value] = {}
        self.values: dict[Expression, Value | None] = {}

    def own_lane(self, element: Element) -> str:
        """How kernels see numbers of a type."""
        if isinstance(element, Format):
            return kernel_name(element) if self.rounded and element in _HALVES else "float32"
        return element.name

    def new(self, lane: str) -> int:
        self.lanes.append(lane)
        return len(self.lanes) - 1

    def step(self, op: str, reads: Sequence[int], lane: str, element: Element, form: Any = None) -> Value:
        number = self.new(lane)
        self.steps.append(Step(op, tuple(reads), (number,), form))
        return Value(number, lane, element)

    def constant(self, node: Expression, element: Element, lane: str) -> Value:
        value = np.asarray(_value_of(node))
        array = typed("a constant of the expression", value, FP32 if lane == "float32" else element)
        number = Number(lane, int.from_bytes(array.tobytes(), sys.byteorder))
        if node.op == "number":
            number = Number(lane, 0, node.value[:2], value.dtype.kind == "i")
        if number not in self.constants:
            self.constants[number] = self.new(lane)
            self.numbers[self.constants[number]] = number
        return Value(self.constants[number], lane, element)

    def read(self, node: Expression, lane: str, element: Element) -> Value:
        """An operand of a step, in the lane that the step takes."""
        value = self.values.get(node)  # of a rewrite's constants there is none
        return self.constant(node, element, lane) if value is None else self.convert(value, lane)

    def convert(self, value: Value, lane: str) -> Value:
        key = value.number, lane
        if value.lane == lane:
            return value
        if key not in self.converted:
            if lane in map(kernel_name, _HALVES):
                form = FP16 if lane == "float16" else BF16
                wide = self.convert(value, "float32")
                made = self.step("encode", (wide.number,), lane, form, form)
            else:
                narrow: Element = FP16 if value.lane == "float16" else BF16
                source = narrow if isinstance(value.element, Format) else value.element
                made = self.step("decode", (value.number,), lane, value.element, source)
            self.converted[key] = made
        return self.converted[key]

    def lower(self, node: Expression) -> Value | None:
        """Lower an expression whose operands are lowered; None for a constant."""
        if node.op == "placeholder":
            if node.value > len(self.operands):
                raise bad_argument("arrays", f"{len(self.operands)} arrays", f"more, as {node!r} is in the expression")
            place: int = node.value - 1
            return self.operands[place]
        if node.op in ("const", "number"):
            return None
        if node.op == "cast":
            return self.cast(node)
        values = [self.values[arg] for arg in node.args]
        elements = [v and v.element for v in values]
        if node.op == "/":
            whole = [v and not isinstance(v.element, Format) for v in values]
            elements = [FP32 if w else e for e, w in zip(elements, whole, strict=True)]
        row, element = typed_op(node, elements)
        args = list(node.args)
        name = row.name
        for rule in _RULES:
            found = rule(name, args, element, self)
            if isinstance(found, Expression):
                kept = self.values[found]
                if kept is not None and kept.element == element:
                    return kept
            elif found is not None:
                name, args = found
        return self.compute(ELEMENTWISE[name], args, element)

    def compute(self, row: ElementwiseOp, args: Sequence[Expression], element: Element) -> Value:
        """One operation's step, and the rounding of its result where each step's is rounded."""
        own = self.own_lane(element)
        for lane in dict.fromkeys((own, "float32" if isinstance(element, Format) else own)):
            result = "bool" if row.tells else lane
            taken = ["bool" if key in row.conditions else lane for key in row.operands]
            if f"{','.join(taken)}->{result}" in _served(row.name):
                break
        else:
            raise UnsupportedError(f"popops.map: no kernel does {row.name} for {element}")
        reads = [self.read(arg, kind, BOOL).number if kind == "bool" else
                 self.convert(self.read(arg, own, element), kind).number for arg, kind in zip(args, taken, strict=True)]
        value = self.step(row.name, reads, result, BOOL if row.tells else element)
        return value if row.tells else self.convert(value, own)

    def cast(self, node: Expression) -> Value:
        """A cast: rounded once, and a number again."""
        (arg,), target = node.args, node.value
        value = self.values[arg]
        if isinstance(target, Format):
            if value is None:
                value = self.constant(arg, FP32, "float32")
            if value.element == target and value.lane in ("float32", self.own_lane(target)):
                return value
            number = self.convert(value, "float32")
            if target == FP32:
                return Value(number.number, "float32", FP32)
            coded = self.step("encode", (number.number,), target.code_dtype.name, target, target)
            if kernel_name(target) == self.own_lane(target):
                self.lanes[coded.number] = self.own_lane(target)
                return Value(coded.number, self.own_lane(target), target)
            return self.step("decode", (coded.number,), "float32", target, target)
        element = value.element if value is not None else FP32
        if element == target and value is not None:
            return value
        if target == BOOL:
            return self.compute(ELEMENTWISE["neq"], (arg, const(0)), element)
        if not isinstance(element, Format) and np.can_cast(element, target):
            assert value is not None
            wide = self.convert(value, target.name)
            return Value(wide.number, wide.lane, target)
        raise UnsupportedError(f"popops.map: no kernel casts {element} to {target}; allowed: from truth values and "
                               "narrower integers")

    def chain(self, results: Sequence[Value], lanes: Sequence[str]) -> Chain:
        """The steps with results written where they go, and values numbered one after another."""
        renamed: dict[int, int] = {}
        taken, which = {*range(self.outputs.start), *self.numbers}, {i: k for k, i in enumerate(self.numbers)}
        for out, result, lane in zip(self.outputs, results, lanes, strict=True):
            value = self.convert(result, lane).number
            self.lanes[out] = lane
            if value in taken:
                self.steps.append(Step("copy", (value,), (out,)))
            else:
                renamed[value] = out
                taken.add(value)
        live, steps = {*self.outputs}, []
        for step in reversed(self.steps):
            reads, writes = (tuple(renamed.get(i, i) for i in side) for side in (step.reads, step.writes))
            if live.intersection(writes):
                live.update(reads)
                steps.append(step._replace(reads=reads, writes=writes))
        steps = joined(steps[::-1], self.lanes, self.outputs.stop, which)
        used = {i for step in steps for i in step.reads}
        fixed = [*range(self.outputs.stop), *(i for i in which if i in used)]
        numbers, kept = _numbered(steps, self.lanes, fixed)
        if len(kept) > MOST_VALUES:
            raise bad_argument("expression", f"one that keeps {len(kept)} values", f"at most {MOST_VALUES}")
        constants = sorted((numbers[i], k) for i, k in which.items() if i in used)
        settled = (step._replace(reads=tuple(numbers[i] for i in step.reads),
                                 writes=tuple(numbers[i] for i in step.writes)) for step in steps)
        return Chain(tuple(settled), tuple(kept), tuple(constants), tuple(self.numbers.values()))


def _numbered(steps: Sequence[Step], lanes: Sequence[str], fixed: Sequence[int]) -> tuple[dict[int, int], list[str]]:
    """New numbers of values, those of a lane that nobody reads any more given again; and the lanes by these numbers."""
    numbers = {value: k for k, value in enumerate(fixed)}
    kept = [lanes[value] for value in fixed]
    last = {i: at for at, step in enumerate(steps) for i in step.reads}
    free: dict[str, list[int]] = {lane: [] for lane in lanes}
    staying = set(fixed)
    for at, step in enumerate(steps):
        over = [i for i in dict.fromkeys(step.reads) if last[i] == at and i not in staying]
        for i in over if step.early else ():
            free[lanes[i]].append(numbers[i])
        for i in step.writes:
            if i not in numbers:
                lane = lanes[i]
                numbers[i] = free[lane].pop() if free[lane] else len(kept)
                if numbers[i] == len(kept):
                    kept.append(lane)
        for i in () if step.early else over:
            free[lanes[i]].append(numbers[i])
    return numbers, kept


Rule = Callable[[str, list[Expression], Element, _Lowering], "tuple[str, list[Expression]] | Expression | None"]


def _power(name: str, args: list[Expression], element: Element, work: _Lowering) -> Any:
    """Powers that are simpler operations; the roots only on request: of minus zero and minus infinity they differ."""
    if name != "pow" or args[1].op != "const":
        return None
    simpler: dict[float, str] = {2.0: "square"}
    if isinstance(element, Format):
        simpler[-1.0] = "inv"
        simpler |= {0.5: "sqrt", -0.5: "rsqrt"} if work.relaxed else {}
    op = simpler.get(args[1].value)
    return args[0] if args[1].value == 1 else (op, [args[0]]) if op else None


def _neutral(name: str, args: list[Expression], element: Element, work: _Lowering) -> Any:
    """Operations that leave a number as it is. A sum with zero does not leave minus zero: on request alone."""
    numbers = [arg.value if arg.op == "const" else None for arg in args]
    if len(args) != 2:
        return None
    if name in ("mul", "div") and numbers[-1] == 1:
        return args[0]
    if name == "mul" and numbers[0] == 1:
        return args[1]
    exact = work.relaxed or not isinstance(element, Format)
    for left, right in ((0, 1), (1, 0))[: 1 + (name == "add")]:
        zero = numbers[right] == 0 and numbers[right] is not None
        if zero and name == "add" and (exact or str(numbers[right]) == "-0.0"):
            return args[left]
        if zero and (name.startswith("shift_") or (name == "sub" and str(numbers[right]) != "-0.0")):
            return args[left]
    return None


def _unsigned(name: str, args: list[Expression], element: Element, work: _Lowering) -> Any:
    """Quotients and rests of unsigned integers by powers of two."""
    if isinstance(element, Format) or element.kind != "u" or len(args) != 2 or args[1].op != "const":
        return None
    number = args[1].value
    if type(number) is not int or number < 1 or number & (number - 1):
        return None
    if name in ("div", "floor_divide"):
        return "shift_right", [args[0], const(number.bit_length() - 1)]
    return ("bitwise_and", [args[0], const(number - 1)]) if name in ("rem", "remainder") else None


def _settled(name: str, args: list[Expression], element: Element, work: _Lowering) -> Any:
    """A choice that is made already."""
    return args[0 if args[2].value else 1] if name == "select" and args[2].op == "const" else None


_RULES: tuple[Rule, ...] = (_unsigned, _power, _neutral, _settled)


@remembered()
def lowered(outputs: tuple[Expression, ...], elements: tuple[Element, ...], out: tuple[Element | None, ...],
            rounded: bool, relaxed: bool) -> Lowered:
    """Return the steps of an expression.

    Parameters
    ----------
    outputs : tuple of Expression
    elements : tuple of Format or numpy.dtype
        Of the arrays.
    out : tuple
        What the results are to be; None for what the expression gives.
    rounded : bool
        Whether each step is rounded to its type.
    relaxed : bool
        Whether rewrites may change what special values give.
    """
    work = _Lowering(elements, len(outputs), rounded, relaxed)
    for node in postorder(outputs):
        work.values[node] = work.lower(node)
    results = [work.values[node] or _alone(work, node) for node in outputs]
    kinds = [asked or value.element for asked, value in zip(out, results, strict=True)]
    lanes = []
    for kind, value in zip(kinds, results, strict=True):
        if isinstance(kind, Format):
            lanes.append(value.lane if work.rounded and value.lane == kernel_name(kind) else "float32")
        else:
            lanes.append(kind.name)
    return Lowered(work.chain(results, lanes), tuple(value.element for value in results))


def _alone(work: _Lowering, node: Expression) -> Value:
    """A constant that is a result."""
    element = meeting({}, {"expression": np.asarray(_value_of(node))}, "fiub", "numbers")
    return work.constant(node, element, "float32" if isinstance(element, Format) else element.name)
