"""The table of what each op takes, promises and runs by: from the catalogue, by calls that are drawn and run."""

import inspect
import re
import warnings
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

from poplibs_py import profile
from poplibs_py.errors import PoplibsError
from poplibs_py.formats import FORMATS, QuarterArray, format_of
from poplibs_py.kernels import FAMILIES, kernels
from poplibs_py.ops import catalogue
from poplibs_py.testing.calls import calls

HEADS = ("op", "PopLibs", "formats", "what, and how exactly", "kernels: their levels", "vertices of a GC200",
         "its cycles for the dearest calls drawn")
NAMES = [f.name for f in FORMATS]
KINDS = {"b": "bool", "i": "integers", "u": "integers"}
MOST = 6  # names in a cell

_LEVELS = defaultdict(list)
for family in FAMILIES:
    for kernel in kernels(family):
        if kernel.level not in _LEVELS[kernel.name]:
            _LEVELS[kernel.name].append(kernel.level)
_CODECS = {kernel.name for kernel in kernels("cast")}


class Seen(NamedTuple):
    """What calls of an op told: formats of first operands, kernels, vertices, and the most cycles of each format."""

    formats: set
    kernels: set
    vertices: set
    costs: dict


def format_name(value):
    """What a table calls the format of an operand; None for what is none."""
    if isinstance(value, QuarterArray):
        return value.format.name if value.format.name in NAMES else "user formats"
    if not isinstance(value, np.ndarray):
        return None
    try:
        return format_of(value.dtype).name
    except PoplibsError:
        return KINDS.get(value.dtype.kind)


def retyped(values, dtype):
    """Operands with their numbers in another dtype."""
    made = []
    for value in values:
        number = format_name(value) in NAMES
        if isinstance(value, QuarterArray):
            value = value.to_array(np.float32)
        with np.errstate(all="ignore"):
            made.append(np.asarray(value, np.float32).astype(dtype) if number else value)
    return made


def look(name, seen, operands, keywords):
    """Run a call where it can run, and take down what ran."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with profile(target="gc200") as report:
                catalogue[name].face(*operands, **keywords)
        except (PoplibsError, ValueError, TypeError):
            return
    first = next((found for found in map(format_name, operands) if found), None)
    seen.formats.update({first} - {None})
    for run in report.runs:
        seen.kernels.update(kernel for kernel, _ in re.findall(r"([\w.]+) \((\w+)\)", run.kernel) if kernel in _LEVELS)
        if run.op != name or run.lacking:
            continue
        cycles = getattr(run.plan, "cycles", 0)
        if cycles and first:
            seen.costs[first] = max(seen.costs.get(first, (0, "")), (cycles, run.what))
        for step in getattr(run.plan, "steps", ()):
            seen.vertices.update(v.name for w in step.work for v in w.vertices)


def seen_of(name, examples):
    """Run drawn calls of an op, each with its numbers in every preset's format too."""
    seen = Seen(set(), set(), set(), {})

    @settings(max_examples=examples, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))
    @given(calls(name))
    def run(call):
        operands, keywords = call
        look(name, seen, operands, keywords)
        for fmt in FORMATS:
            look(name, seen, retyped(operands, fmt.dtype), {})

    run()
    return seen


def listed(names):
    """Names in order, the first of them if they are many."""
    names = sorted(names)
    return ", ".join(f"`{n}`" for n in names[:MOST]) + f" and {len(names) - MOST} more" * (len(names) > MOST)


def levels_of(names):
    """Kernels by the levels that they are there for; codecs only of what has no other."""
    groups = defaultdict(list)
    for name in names - _CODECS or names:
        groups[", ".join(_LEVELS[name])].append(name)
    return "; ".join(f"{listed(group)}: {levels}" for levels, group in sorted(groups.items()))


def costs_of(costs):
    """The cycles of each format's dearest call, and what it was."""
    return "; ".join(f"{fmt} {cycles:,} ({what})" for fmt, (cycles, what) in sorted(costs.items())).replace("|", "\\|")


def contract(face):
    """The first lines of a function's docstring, what is told behind them, and the first of its notes."""
    text = inspect.getdoc(face) or ""
    parts = text.partition("Parameters\n")[0], text.partition("Notes\n-----\n")[2].partition("\n\n")[0]
    words = " ".join(" ".join(part.split()) for part in parts if part)
    return re.sub(r"\s*\(``[^)]*``\)", "", words).replace("``", "`").replace("|", "\\|")


def row(record, examples):
    """The cells of an op."""
    seen = seen_of(record.name, examples)
    order = [*NAMES, "user formats", "integers", "bool"]
    formats = ", ".join(sorted(seen.formats, key=order.index))
    return (f"`{record.name}`", f"`{record.poplibs}`" if record.poplibs else "", formats, contract(record.face),
            levels_of(seen.kernels), listed(seen.vertices), costs_of(seen.costs))


def rows(names=None, examples=4):
    """The lines of the table, of all ops or of some."""
    chosen = catalogue.values() if names is None else [catalogue[name] for name in names]
    lines = [HEADS, ("---",) * len(HEADS), *(row(record, examples) for record in chosen)]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
