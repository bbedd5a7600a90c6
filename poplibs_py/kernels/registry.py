"""The registry of compiled kernels, and the selection of one with reasons for the rest.

Each family's module holds the kernels of one instruction-set level. Only modules of levels that this machine can run
are ever imported.

A kernel registers once, by a pattern of formats: its operands and, after ``->``, its result, each a name, several with
bars between them (``"bfloat16,bfloat16|f143->float32"``), ``"="``, which is the format of the first operand, or
``"any"``: every preset. Callers name the formats of a call, ``"any"`` being a user's. Of two kernels of a level the one
that takes fewer of them as ``any`` comes first.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from .. import log
from ..checks import flag, instance, one_of
from ..config import LEVELS
from ..errors import UnsupportedError, bad_type
from ..memo import tabled
from . import _records
from .levels import available_levels, built_as
from .records import FORMAT_NUMBERS

FAMILIES = ("attention", "cast", "cells", "conv", "ctc", "dot", "elementwise", "factor", "peak", "pool", "random",
            "rearrange", "reduce", "rows", "slices", "softmax", "sort", "sparse", "strided")
"""Kernel families, one folder of ``src_cython/kernels`` each, and drivers, one source of ``src_cython/drivers``."""

CONSISTENT = _records.CONSISTENT
"""Flag: the kernel gives the same bits as the portable kernel of the same op and formats."""

LONG = _records.LONG
"""Flag: the kernel takes longer than memory does, or wants many elements to a call."""

_log = log.get("kernels")


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel, as its registration line describes it.

    Attributes
    ----------
    family, op, formats, name, level : str
        Where it belongs, what it does, the pattern of formats that it is selected by, what it is called, which level it
        needs.
    address : int
        Its entry point, for the compiled frame that calls it.
    grain, block : tuple of int
        Rows, columns and depth of the least and of the unrolled unit.
    flags : int
        `CONSISTENT`, `LONG`, both or 0.
    """

    family: str
    op: str
    formats: str
    name: str
    level: str
    address: int
    grain: tuple[int, int, int]
    block: tuple[int, int, int]
    flags: int

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the names: another process has the kernel at an address of its own."""
        return _named, tuple(getattr(self, f.name) for f in fields(self) if f.name != "address")

    @property
    def here(self) -> bool:
        """Whether this CPU may run it: one that was pickled elsewhere lies nowhere if it may not."""
        return bool(self.address)

    @property
    def label(self) -> str:
        """Its name and level, for a reader."""
        return f"{self.name} ({self.level})"

    @property
    def takes_tiles(self) -> bool:
        """Whether it is a matrix unit's, which takes whole tiles of rows."""
        return self.grain[0] > 1

    @property
    def consistent(self) -> bool:
        """Whether its bits equal the portable kernel's."""
        return bool(self.flags & CONSISTENT)

    @property
    def long(self) -> bool:
        """Whether memory is not what its time is spent on."""
        return bool(self.flags & LONG)

    @property
    def served(self) -> tuple[str, ...]:
        """The formats of the pattern, each choice between names written out; ``any`` stays."""
        parts = re.split("(,|->)", self.formats)
        return tuple("".join(chosen).replace("=", chosen[0])
                     for chosen in itertools.product(*(part.split("|") for part in parts)))


@dataclass(frozen=True)
class Rejection:
    """A kernel that was not taken, and why."""

    kernel: Kernel
    reason: str


@dataclass(frozen=True)
class Selection:
    """The kernel taken, and those that were not."""

    kernel: Kernel
    rejected: tuple[Rejection, ...]

    def __str__(self) -> str:
        """One line for each candidate, the chosen one marked with ``*``."""
        lines = [f"* {self.kernel.label}"]
        lines += [f"  {r.kernel.label}: {r.reason}" for r in self.rejected]
        return "\n".join(lines)


def kernels(family: str) -> tuple[Kernel, ...]:
    """Return every kernel of `family` that this machine may run, lowest level first."""
    one_of("family", family, FAMILIES)
    return _kernels(family)


@cache
def _kernels(family: str) -> tuple[Kernel, ...]:
    found: list[Kernel] = []
    for level in available_levels():
        try:
            module = importlib.import_module(f"{__package__}._tiles.{family}_{built_as(level)}")
        except ModuleNotFoundError:
            continue
        for op, formats, name, address, grain, block, flags in module.kernels():
            found.append(Kernel(family, op, formats, name, level, address, grain, block, flags))
    return tuple(found)


def _named(family: str, op: str, formats: str, name: str, level: str, *rest: Any) -> Kernel:
    """Return the kernel of these names as this process has it; one that it has not lies nowhere."""
    of_family = kernels(family) if family in FAMILIES else ()
    places = {k.address for k in of_family if (k.op, k.formats, k.name, k.level) == (op, formats, name, level)}
    return Kernel(family, op, formats, name, level, places.pop() if len(places) == 1 else 0, *rest)


@tabled(4096)
def generality(pattern: str, formats: str) -> int | None:
    """Return how many formats a kernel's pattern takes as ``any``, or None where it does not serve them.

    Examples
    --------
    >>> generality("float32,any->float32", "float32,f143->float32")
    1
    >>> generality("bfloat16,bfloat16|f143->float32", "bfloat16,f143->float32")
    0
    >>> generality("bfloat16,bfloat16|f143->float32", "bfloat16,float32->float32") is None
    True
    >>> generality("int8|uint8,=->bool", "int8,uint8->bool") is None
    True
    """
    sides, asked = ([side.split(",") for side in text.split("->")] for text in (pattern, formats))
    if [len(side) for side in sides] != [len(side) for side in asked]:
        return None
    found = 0
    for slot, name in zip(itertools.chain(*sides), itertools.chain(*asked), strict=True):
        if name in slot.split("|") or (slot == "=" and name == asked[0][0]):
            continue
        if slot != "any" or name not in FORMAT_NUMBERS:
            return None
        found += 1
    return found


@tabled(1024)
def _candidates(family: str, op: str, formats: str) -> tuple[tuple[Kernel, int], ...]:
    """Kernels that serve an op and formats, each with its generality."""
    of_op = ((k, generality(k.formats, formats)) for k in kernels(family) if k.op == op)
    return tuple((k, general) for k, general in of_op if general is not None)


def _dearer(cost: float, least: float) -> str:
    """What a predicted cost that is not the least says against a kernel."""
    if cost == least:
        return "predicted as fast; another comes first"
    return f"predicted {cost / least - 1:.1%} slower" if least > 0 else f"cost {cost:.4g} against {least:.4g}"


def select(family: str, op: str, formats: str, *, consistent: bool = False,
           cost: Callable[[Kernel], float] | None = None) -> Selection:
    """Choose the kernel for an op and formats.

    Parameters
    ----------
    family, op, formats : str
        What is needed; formats by name, ``"any"`` for one of a user's.
    consistent : bool, optional
        Take only kernels whose bits equal the portable kernel's.
    cost : callable, optional
        Predicted cost of a kernel for the shape at hand; the least wins. By default, and between equals, the highest
        instruction-set level wins, and of its kernels the one made for these formats.

    Returns
    -------
    Selection
        The kernel and the reasons against the others.

    Raises
    ------
    UnsupportedError
        If no kernel that may run here serves the op and formats.
    """
    for name, value in (("family", family), ("op", op), ("formats", formats)):
        instance(name, value, str, "a text")
    consistent = flag("consistent", consistent)
    if not (cost is None or callable(cost)):
        raise bad_type("cost", cost, "a function of a kernel, or None")
    general = dict(_candidates(family, op, formats))
    candidates = list(general)
    rejected = [Rejection(k, "its bits may differ from the portable kernel's") for k in candidates
                if consistent and not k.consistent]
    allowed = [k for k in candidates if not consistent or k.consistent]
    if not allowed:
        levels = ", ".join(available_levels())
        raise UnsupportedError(f"no {family} kernel does {op} for {formats} at the usable levels ({levels})")
    costs = {k: cost(k) if cost else 0.0 for k in allowed}
    allowed.sort(key=lambda k: (costs[k], -LEVELS.index(k.level.removesuffix("_emulated")), general[k]))
    best = allowed[0]
    for kernel in allowed[1:]:
        reason = _dearer(costs[kernel], costs[best]) if cost else "a higher level serves"
        if kernel.level == best.level and not cost:
            reason = "another of its level comes first; where a caller weighs shapes, cost decides"
            if general[kernel] > general[best]:
                reason = "made for any format; another of its level is made for these"
        rejected.append(Rejection(kernel, reason))
    selection = Selection(best, tuple(rejected))
    if _log.isEnabledFor(log.TRACE):
        _log.log(log.TRACE, "%s %s %s\n%s", family, op, formats, selection)
    return selection
