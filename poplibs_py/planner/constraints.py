"""Plan constraints: a plan with parts left out, as JSON, checked against an op's schema before any planning."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from ..checks import instance
from ..errors import InvalidOptionError, bad_argument, check_keys, described, did_you_mean

#: Stands for every non-negative integer among the keys of a schema.
INDEX = "<index>"

Check = Callable[[str, object], None]
_NAME = "planConstraints"


@dataclasses.dataclass(frozen=True)
class PlanConstraints:
    """What must hold of a plan: PopLibs' ``planConstraints`` options, a class for each op that has them.

    An unknown key, a value of the wrong kind or a negative index raises `InvalidOptionError`.

    Attributes
    ----------
    schema : mapping
        From each key that the op knows to a schema of what is below it, or to a function that checks the value:
        `boolean`, `unsigned`, `unsigned_list`, or what `one_word` returns.

    Examples
    --------
    >>> from poplibs_py.planner.constraints import INDEX, PlanConstraints, unsigned
    >>> class SliceConstraints(PlanConstraints):
    ...     schema = {"lookups": {"parallel": unsigned, "serial": unsigned}, INDEX: unsigned}
    >>> c = SliceConstraints.parse({"lookups": {"serial": 2}})
    >>> c.get("lookups.serial"), c.get("lookups.parallel")
    (2, None)
    """

    schema: ClassVar[Mapping[str, Any]] = {}

    #: Canonical JSON text: equal constraints are equal and hash alike.
    text: str = "{}"

    @classmethod
    def parse(cls, constraints: object, name: str = _NAME) -> Self:
        """Check `constraints` (JSON text or nested mappings) and normalise it, or raise under the caller's `name`."""
        if isinstance(constraints, cls):
            return constraints
        if constraints is None or (isinstance(constraints, str) and not constraints):
            return cls()
        tree: object = constraints
        if isinstance(constraints, str):
            try:
                tree = json.loads(constraints)
            except (ValueError, RecursionError) as error:
                shown = described(constraints)
                raise InvalidOptionError(f"{name}: got {shown}; allowed: a JSON object") from error
        if not isinstance(tree, Mapping):
            raise InvalidOptionError(f"{name}: got {described(tree)}; allowed: an object")
        return cls(json.dumps(_checked(name, tree, cls.schema), sort_keys=True))

    def __post_init__(self) -> None:
        try:
            tree = json.loads(self.text)
        except (ValueError, TypeError, RecursionError):
            tree = None
        if not isinstance(tree, dict):
            raise bad_argument("text", self.text, "the JSON text of an object: see PlanConstraints.parse")
        _checked(_NAME, tree, type(self).schema)
        object.__setattr__(self, "_tree", tree)

    def get(self, name: str) -> Any:
        """The value of a dotted name, None where nothing is constrained."""
        instance("name", name, str, "a dotted name")
        node: Any = self._tree  # type: ignore[attr-defined]
        for key in name.split("."):
            if not isinstance(node, dict) or key not in node:
                return None
            node = node[key]
        return node

    @property
    def indices(self) -> list[int]:
        """The indices among the outermost keys."""
        return [int(key) for key in self._tree if _is_index(key)]  # type: ignore[attr-defined]

    def merged(self, constraints: Mapping[str, Any]) -> Self:
        """These constraints with some more, by dotted names, added or replaced."""
        instance("constraints", constraints, Mapping, "a mapping of dotted names to values")
        tree = json.loads(self.text)
        for path, value in constraints.items():
            instance("constraints", path, str, "a mapping of dotted names to values")
            *above, key = path.split(".")
            node = tree
            for name in above:
                node = node.setdefault(name, {})
                if not isinstance(node, dict):
                    raise bad_argument("constraints", path, f"names of single values; {name} is one already")
            node[key] = value
        return type(self).parse(tree)

    def __bool__(self) -> bool:
        return self.text != "{}"


# Checks of values ----------------------------------------------------------------------------------


def unsigned(path: str, value: object) -> None:
    """Refuse what is no unsigned integer of 32 bits."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:11])
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise _refuse(path, value, "an unsigned integer")


def boolean(path: str, value: object) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise _refuse(path, value, "true or false")


def unsigned_list(path: str, value: object) -> None:
    """Refuse what is no list of unsigned integers."""
    if not isinstance(value, (list, tuple)):
        raise _refuse(path, value, "a list of unsigned integers")
    for item in value:
        unsigned(path, item)


def one_word(*words: str) -> Check:
    """Return a check that refuses what is none of some words."""

    def check(path: str, value: object) -> None:
        if value not in words:
            hint = did_you_mean(value, words)
            raise InvalidOptionError(f"{path}: got {described(value)}{hint}; allowed: {', '.join(words)}")

    return check


def _checked(path: str, value: object, schema: Mapping[str, Any] | Check) -> Any:
    """The value at a path with its keys as text, or raise."""
    if callable(schema):
        schema(path, value)
        return value
    if not isinstance(value, Mapping):
        raise _refuse(path, value, "an object")
    return {_name(str(key), schema): _checked(f"{path}.{key}", child, _below(path, str(key), schema))
            for key, child in value.items()}


def _name(key: str, schema: Mapping[str, Any]) -> str:
    """A key as `get` looks for it: an index in its shortest form."""
    return str(int(key)) if key not in schema and _is_index(key) else key


def _below(path: str, key: str, schema: Mapping[str, Any]) -> Any:
    if key in schema:
        return schema[key]
    if not (INDEX in schema and _is_index(key)):
        check_keys(path, [key], [name for name in schema if name != INDEX],
                   besides="a non-negative integer as the key" * (INDEX in schema))
    return schema[INDEX]


def _is_index(key: str) -> bool:
    try:
        return len(key) < 32 and int(key) >= 0
    except ValueError:
        return False


def _refuse(path: str, got: object, allowed: str) -> InvalidOptionError:
    return InvalidOptionError(f"{path}: got {described(got)}; allowed: {allowed}")
