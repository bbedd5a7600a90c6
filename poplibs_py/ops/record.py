"""The record of an op, and the catalogue: one table of all ops, which whatever goes through them reads."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature, unwrap
from typing import Any, TypeVar, cast

from ..errors import UnsupportedError, bad_argument, bad_type, described, did_you_mean
from ..program import Face
from .machine import Placed, place_of
from .road import Request, travel

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = __name__.partition(".")[0]
LIBRARIES = ("popops", "popfloat", "poplin", "poplin.multiconv", "poprand", "popsparse", "popsparse.static",
             "popsparse.dynamic", "popsparse.experimental", "popnn")
"""Where ops are: to read the catalogue is to import them."""

_ALLOWED = "a name in poplibs_py.ops.catalogue, or the end of one"


@dataclass(frozen=True)
class Op:
    """What there is to know of an op beside its code.

    Places are named ``"module:function"`` below the package, so that a record costs no import.

    Attributes
    ----------
    name : str
        The public name below the package, such as ``"poplin.matmul"``: what a `Run` of it is called.
    poplibs : str
        PopLibs' function, or an empty string.
    bound : str
        What a call computes, in float64, and how far a right result may lie from that: a function of the call's
        arguments that returns a `Ball`.
    draws : str
        A hypothesis strategy of calls.
    written : str or None
        The parameter that the result is written to.
    values : tuple of str
        Parameters whose values make no other program: seeds.
    numbers : tuple of str
        Those whose numbers make none, but powers of two: scales.
    reference : str
        Where what it computes is written more plainly than as the centre of its bound.
    """

    name: str
    poplibs: str
    bound: str
    draws: str
    written: str | None = "out"
    values: tuple[str, ...] = ()
    reference: str = ""
    numbers: tuple[str, ...] = ()

    @property
    def face(self) -> Any:
        """The public function."""
        module, _, name = self.name.rpartition(".")
        return located(f"{module}:{name}")


class Catalogue(Mapping[str, Op]):
    """All ops by name; those of a library are there once it is imported, and reading the table imports all."""

    def __init__(self) -> None:
        self._ops: dict[str, Op] = {}

    def add(self, record: Op) -> None:
        """Take a record in."""
        if record.name in self._ops:
            raise ValueError(f"{record.name} has a record already")
        self._ops[record.name] = record

    def __getitem__(self, name: str) -> Op:
        return self._whole()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._whole()))

    def __len__(self) -> int:
        return len(self._whole())

    def find(self, name: str) -> Op:
        """Return the op of a name, of the end of one, or of another name of its: ``"matmul"``, ``"popnn.swish"``.

        Of several that is the one in a library itself: ``"convolution"`` is not that of ``poplin.multiconv``.

        Raises
        ------
        InvalidArgumentError
            If there is none, or more than one; the message lists them, or has the nearest.
        """
        if not isinstance(name, str):
            raise bad_type("op", name, "the name of an op")
        if name in self._whole():
            return self[name]
        names = [full for full in self if full.endswith(f".{name}")]
        least = min((full.count(".") for full in names), default=0)
        names = [full for full in names if full.count(".") == least]
        if len(names) == 1:
            return self[names[0]]
        if names:
            raise bad_argument("op", name, ", ".join(map(repr, names)))
        library, _, function = name.rpartition(".")
        found = [getattr(sys.modules[f"{_PACKAGE}.{of}"], function, None) for of in LIBRARIES if library in ("", of)]
        records: list[Op] = [face.op for face in found if isinstance(face, Face)]
        if records:
            return records[0]
        if any(map(callable, found)):
            raise bad_argument("op", f"{described(name)}, a function that is no op and has no bound", _ALLOWED)
        hint = did_you_mean(name, [full.rpartition(".")[2] for full in self])
        raise bad_argument("op", f"{described(name)}{hint}", _ALLOWED)

    def _whole(self) -> dict[str, Op]:
        for library in LIBRARIES:
            if f"{_PACKAGE}.{library}" not in sys.modules:
                import_module(f"{_PACKAGE}.{library}")
        return self._ops


catalogue = Catalogue()


def op(poplibs: str = "", *, bound: str, draws: str, written: str | None = "out", values: tuple[str, ...] = (),
       reference: str = "", shared: str = "", numbers: tuple[str, ...] = (), lacks: str = "",
       by: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """Make a function that describes a call the face of an op, and put its record in the catalogue.

    The op has the function's name, in the library that the function's module is of; so have its bound,
    ``<name>_bound``, its draws, ``<name>_calls``, and its reference where modules alone are named. The function
    documents the op, but for what is the same for many: some parameters, the errors that all ops raise, the imports
    that examples begin with. Given a call's arguments it returns a `Request`; the road does the rest. Where it has a
    docstring alone `by` does so, given the function's name and all its arguments by name.
    `shared` are sections that several ops have alike, before a docstring's notes.
    `lacks` is what no modelled machine has vertices for, in words: this CPU alone does the call, and is its `target`.
    """
    def face_of(function: Function) -> Function:
        own, module = function.__name__, f"{function.__module__}."
        library = max((of for of in LIBRARIES if module.startswith(f"{_PACKAGE}.{of}.")), key=len)
        record = Op(f"{library}.{own}", poplibs, _place(bound, f"{own}_bound"), _place(draws, f"{own}_calls"), written,
                    values, _place(reference, own), numbers)
        catalogue.add(record)
        doc = with_sections(function.__doc__ or "", shared) if shared else function.__doc__ or ""
        entries = _ALONE if lacks else _ENTRIES
        function.__doc__ = _completed(doc, library.partition(".")[0], function.__annotations__, entries)
        describe = function if by is None else _described_by(function, by)
        describe = _on_host(describe, record.name, lacks) if lacks else describe
        return cast(Function, Face(describe, travel, record, written, values, numbers))

    return face_of


def _place(place: str, name: str) -> str:
    """A place as a record has it, of one that may be a module alone."""
    return place if ":" in place or not place else f"{place}:{name}"


_BEGIN = "    Parameters\n    ----------\n"
_ENTRIES = {"strict_memory": """    strict_memory : bool, optional
        Raise `MemoryLimitError` where no plan keeps to the limit; otherwise the limit is raised with a
        `MemoryLimitWarning`.""", "target": """    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are the same, where it has
        vertices for the call."""}
_ALONE = _ENTRIES | {"target": """    target : Target or str, optional
        The machine; by default this CPU, which alone does it."""}
_RAISES = """
    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind, shape or value. Nothing has been written then.
"""
_EXAMPLES = "    Examples\n    --------\n"
_UNSUPPORTED = """    UnsupportedError
        If `target` names a machine that has no vertex for it.
"""


def _on_host(function: Function, name: str, lacks: str) -> Function:
    """Return what describes a call as a function does, on this CPU alone."""
    taken = signature(unwrap(function))

    @wraps(unwrap(function))
    def describe(*args: Any, target: Any = None, **named: Any) -> Any:
        try:
            placed: Placed[Any] = place_of(name, target, lambda _: lacks)
        except UnsupportedError:
            _bind(taken, name.rpartition(".")[2], args, named)  # a keyword that the op has not is told of first
            raise
        request: Request = function(*args, target=placed.host, **named)
        return request.with_(placed=placed)

    return cast(Function, describe)


def _described_by(function: Function, describe: Callable[..., Any]) -> Function:
    """Return a function like one that has a docstring alone: it describes a call as another does of its arguments."""
    taken = signature(function)
    places = [name for name, p in taken.parameters.items() if p.kind is not Parameter.KEYWORD_ONLY]
    usual = {name: p.default for name, p in taken.parameters.items() if p.default is not Parameter.empty}

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        given = usual | dict(zip(places, args, strict=False)) | named  # `bind` takes 6 us more of each first call
        if len(args) > len(places) or given.keys() != taken.parameters.keys() or named.keys() & places[:len(args)]:
            _bind(taken, function.__name__, args, named)
        return describe(function.__name__, **{name: given[name] for name in taken.parameters})  # operands in order

    return cast(Function, call)


def _bind(taken: Signature, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise as Python does where a function of this name takes no such arguments."""
    try:
        taken.bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None


def with_sections(doc: str, sections: str) -> str:
    """Return a docstring with sections behind its first lines and parameters, before notes and examples."""
    at = min((at for section in ("Notes", "Examples") if (at := doc.find(f"\n    {section}\n")) >= 0), default=len(doc))
    return doc[:at].rstrip() + "\n" + sections + doc[at:]


def documented(section: str) -> set[str]:
    """Return the parameters that have an entry in a docstring's section of them, alone or with others."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"^    (\w[\w, ]*)(?: :.*)?$", section, re.MULTILINE))))


def _completed(doc: str, library: str, names: Any, entries: Mapping[str, str]) -> str:
    """Return a docstring with what it leaves out of parameters, examples' import, and the errors that all ops raise."""
    head, begun, rest = doc.partition(_BEGIN)
    own, _, _ = rest.partition("\n\n")
    told = documented(own)
    missing = "".join(f"\n{text}" for name, text in entries.items() if begun and name in names and name not in told)
    doc = head + begun + own + missing + rest[len(own):]
    doc, begun, examples = doc.partition(_EXAMPLES)
    if "np." in examples and "import numpy" not in examples:
        begun += "    >>> import numpy as np\n"
    if f"{library}." in examples and not re.search(rf"import .*\b{library}\b", examples):
        begun += f"    >>> from {_PACKAGE} import {library}\n"
    doc += begun + examples
    if "    Raises\n" in doc or "    Returns\n" not in doc:
        return doc
    places = [at for section in ("Warns", "Notes", "Examples") if (at := doc.find(f"\n    {section}\n")) >= 0]
    at = min(places, default=len(doc.rstrip()) + 1)
    return doc[:at] + _RAISES + _UNSUPPORTED * ("target" in names) + doc[at:]


def located(path: str) -> Any:
    """Return what a place ``"module:name"`` below the package names."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(f"{_PACKAGE}.{module}"), name)
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"{path} is not in this build") from error
