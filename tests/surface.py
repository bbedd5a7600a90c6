"""The public surface: every callable that the documented packages offer, with its parameters."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_origin

from poplibs_py import report

PARTS_OF_PAGES = {"collect", "drawn", "sheet", "tables", "terminal", "trace", "verdict"}
"""Modules of reports that take what a report hands them."""
REPORTS = [f"report.{module.name}" for module in pkgutil.iter_modules(report.__path__)
           if module.name not in PARTS_OF_PAGES]  # fmt: skip
OF_REPORTS = {"facts_of", "facts_of_summary", "moves", "plan_facts", "spread_memory"}
"""What says of a plan what a report keeps: plans are handed to it, nothing else."""
PACKAGES = (
    "", "popops", "poplin", "poplin.tile_conv", "poplin.multiconv", "poprand", "popsparse", "popsparse.static",
    "popsparse.dynamic", "popnn", "formats", "formats.bounds", "formats.reference", "target", "kernels", "planner",
    "program", "testing", "testing.strategies", "testing.calls", "testing.cases", "checkpoints", "config", "log",
    "errors", "popfloat", *REPORTS,
)  # fmt: skip

OF_THE_FRAME = {
    "program": {"BoundCall", "ComputeSet", "Exchange", "Executable", "Face", "Key", "Loop", "Program", "Remake",
                "Room", "Segment", "Sequence", "Views", "Wrapper", "copy_of", "guard_arenas", "host_program",
                "items_of_threads", "key_by_identity", "key_by_parts", "segment_by_work",
                "overlaps_itself", "result_array", "result_array_like", "room_like", "share_memory", "span_of",
                "spread", "temporary", "threads_for", "value_words", "whole_lines", "without_gaps"},
    "planner": {"Climbed", "Temporaries", "climb", "first_within", "within"},
    "errors": {"bad_argument", "bad_type", "check_keys", "described", "did_you_mean", "not_built", "warn"},
}  # fmt: skip
"""What serves those who write ops, not those who call them: parts of programs, which take addresses and trust them,
steps of planning, and what words a refusal. It does not check what the package itself hands it."""


@dataclass(frozen=True)
class Door:
    """A public callable.

    Attributes
    ----------
    name : str
        Its place below the package, such as ``"popsparse.BlockSparseMatrix.astype"``.
    function : callable
        The function or class; of a method, what its class has.
    owner : type or None
        The class that a method of its objects belongs to.
    """

    name: str
    function: Any
    owner: type | None = None

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What it takes, without the object of a method."""
        try:
            found = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):  # of a compiled class
            return {}
        return {p.name: p for p in (found[1:] if self.owner is not None else found)}


def doors() -> Iterator[Door]:
    """Each public callable once, by the first name that it has."""
    met: set[int] = set()
    for package in PACKAGES:
        module = importlib.import_module(f"poplibs_py.{package}".rstrip("."))
        for name in getattr(module, "__all__", ()):
            offered = getattr(module, name)
            hidden = name in OF_THE_FRAME.get(package, ()) or name in OF_REPORTS or get_origin(offered) is not None
            if hidden or not callable(offered) or id(offered) in met:
                continue
            met.add(id(offered))
            place = f"{package}.{name}".lstrip(".")
            yield Door(place, offered)
            if isinstance(offered, type) and not issubclass(offered, BaseException):
                yield from _methods(place, offered)


def _methods(place: str, kind: type) -> Iterator[Door]:
    for name in dir(kind):
        if name.startswith("_") or inspect.ismodule(getattr(kind, name)):
            continue
        held = inspect.getattr_static(kind, name)
        home = next(base for base in kind.__mro__ if name in vars(base))
        if not home.__module__.startswith("poplibs_py"):  # a tuple's count, a bit generator's state
            continue
        if isinstance(held, (classmethod, staticmethod)):
            yield Door(f"{place}.{name}", getattr(kind, name))
        elif callable(held) and not isinstance(held, type):
            yield Door(f"{place}.{name}", held, kind)
