"""Plan constraints: a plan with parts left out, as JSON, checked before any planning."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InvalidOptionError, bad_argument, described

__all__ = ["PlanConstraints"]

METHODS = ("AMP", "SLIC", "HMAC", "VMAC", "OUTER_PRODUCT")


@dataclasses.dataclass(frozen=True)
class PlanConstraints:
    """What must hold of a plan: PopLibs' ``planConstraints`` option.

    The schema is PopLibs'::

        {"method": {"type": "AMP", "convUnits": 16, ...}, "convGroupsPerGroup": 1,
         "inChansPerGroup": 16, "partialChansPerGroup": 16,
         "0": {"transform": {"swapOperands": true, "expandDims": [1], "outChanFlattenDims": [],
                             "combineConvGroupsFactor": [1]},
               "partition": {"fieldSplit": {"0": 2}, "batchSplit": 1, "kernelSplit": {"0": 1},
                             "outChanSplit": {"parallel": 4, "serial": 1},
                             "inChanSplit": {"parallel": 1}, "convGroupSplit": 1}}}

    An unknown key, a value of the wrong kind or a negative index raises `InvalidOptionError`.

    Examples
    --------
    >>> from poplibs_py.planner import PlanConstraints
    >>> c = PlanConstraints.parse({"0": {"partition": {"outChanSplit": {"serial": 2}}}})
    >>> c.get("0.partition.outChanSplit.serial"), c.get("method.type")
    (2, None)
    """

    #: Canonical JSON text: equal constraints are equal and hash alike.
    text: str = "{}"

    @classmethod
    def parse(cls, constraints: PlanConstraints | str | Mapping[str, Any] | None) -> PlanConstraints:
        """Check `constraints` (JSON text or nested mappings) and normalise it."""
        if isinstance(constraints, PlanConstraints):
            return constraints
        if constraints is None or (isinstance(constraints, str) and not constraints):
            return cls()
        if isinstance(constraints, str):
            try:
                constraints = json.loads(constraints)
            except (ValueError, RecursionError) as error:
                shown = described(constraints)
                raise InvalidOptionError(f"planConstraints: got {shown}; allowed: a JSON object") from error
        if not isinstance(constraints, Mapping):
            raise InvalidOptionError(f"planConstraints: got {described(constraints)}; allowed: an object")
        tree = _mapping("planConstraints", constraints)
        for key, value in tree.items():
            _check_top(key, value)
        return cls(json.dumps(tree, sort_keys=True))

    def __post_init__(self) -> None:
        try:
            tree = json.loads(self.text)
        except (ValueError, TypeError, RecursionError):
            raise bad_argument("text", self.text, "the JSON text of an object: see PlanConstraints.parse") from None
        object.__setattr__(self, "_tree", tree)

    def get(self, path: str) -> Any:
        """The value at a dotted path, None where nothing is constrained."""
        node: Any = self._tree  # type: ignore[attr-defined]
        for key in path.split("."):
            if not isinstance(node, dict) or key not in node:
                return None
            node = node[key]
        return node

    @property
    def levels(self) -> list[int]:
        """Levels of the hierarchy that are named."""
        return [int(key) for key in self._tree if _is_index(key)]  # type: ignore[attr-defined]

    def merged(self, **values: Any) -> PlanConstraints:
        """These constraints with some top-level values added; ``method_type`` sets ``method.type``."""
        tree = json.loads(self.text)
        for key, value in values.items():
            if key == "method_type":
                tree.setdefault("method", {})["type"] = value
            else:
                tree[key] = value
        return PlanConstraints(json.dumps(tree, sort_keys=True))

    def __bool__(self) -> bool:
        return self.text != "{}"


#: No constraints at all.
UNCONSTRAINED = PlanConstraints()


def _refuse(path: str, got: object, allowed: str) -> InvalidOptionError:
    return InvalidOptionError(f"planConstraints.{path}: got {described(got)}; allowed: {allowed}")


def _mapping(path: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _refuse(path, value, "an object")
    return {str(key): dict(child) if isinstance(child, Mapping) else child for key, child in value.items()}


def _unsigned(path: str, value: object) -> None:
    if isinstance(value, str) and value.isdigit():
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise _refuse(path, value, "an unsigned integer")


def _boolean(path: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _refuse(path, value, "true or false")


def _unsigned_list(path: str, value: object) -> None:
    if not isinstance(value, (list, tuple)):
        raise _refuse(path, value, "a list of unsigned integers")
    for item in value:
        _unsigned(path, item)


def _is_index(key: str) -> bool:
    try:
        return int(key) >= 0
    except ValueError:
        return False


def _index(path: str, key: str) -> None:
    if not _is_index(key):
        raise _refuse(path, key, "a non-negative integer as the key")


def _indexed(path: str, value: object) -> None:
    for key, item in _mapping(path, value).items():
        _index(path, key)
        _unsigned(f"{path}.{key}", item)


def _split(path: str, value: object) -> None:
    for key, item in _mapping(path, value).items():
        if key not in ("parallel", "serial"):
            raise _refuse(path, key, "'parallel' or 'serial'")
        _unsigned(f"{path}.{key}", item)


def _method(path: str, value: object) -> None:
    checks: dict[str, Callable[[str, object], None]] = {
        "useLimitedVersion": _boolean,
        "convUnits": _unsigned,
        "convInputLoadElems": _unsigned,
        "convUnitChainsRequired": _unsigned,
        "windowWidth": _unsigned,
    }
    for key, item in _mapping(path, value).items():
        if key == "type":
            if item not in METHODS:
                raise _refuse(f"{path}.type", item, ", ".join(METHODS))
        elif key in checks:
            checks[key](f"{path}.{key}", item)
        else:
            raise _refuse(path, key, ", ".join(["type", *checks]))


_TRANSFORM: dict[str, Callable[[str, object], None]] = {
    "swapOperands": _boolean,
    "expandDims": _unsigned_list,
    "outChanFlattenDims": _unsigned_list,
    "combineConvGroupsFactor": _unsigned_list,
}
_PARTITION: dict[str, Callable[[str, object], None]] = {
    "convGroupSplit": _unsigned,
    "batchSplit": _unsigned,
    "fieldSplit": _indexed,
    "kernelSplit": _indexed,
    "inChanSplit": _split,
    "outChanSplit": _split,
}


def _check_top(key: str, value: object) -> None:
    if key == "method":
        _method(key, value)
    elif key in ("convGroupsPerGroup", "inChansPerGroup", "partialChansPerGroup"):
        _unsigned(key, value)
    else:
        _index(key, key)
        for part, child in _mapping(key, value).items():
            if part not in ("transform", "partition"):
                raise _refuse(key, part, "'transform' or 'partition'")
            checks = _TRANSFORM if part == "transform" else _PARTITION
            for name, item in _mapping(f"{key}.{part}", child).items():
                if name not in checks:
                    raise _refuse(f"{key}.{part}", name, ", ".join(checks))
                checks[name](f"{key}.{part}.{name}", item)
