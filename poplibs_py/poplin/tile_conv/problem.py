"""A planning problem: machine, convolution and options in one hashable record with a JSON form."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ...errors import PoplibsError, bad_argument, bad_type
from ...target import Target, modelled_machine, resolve_target
from .axis import Axis, FieldTransform, OutputTransform
from .options import ConvOptions
from .params import ConvParams


@dataclasses.dataclass(frozen=True)
class ConvProblem:
    """What is planned: `sweep` and `fit` take one, and `ConvPlan.problem` is one.

    Parameters
    ----------
    target : Target or str
        A modelled machine, or the name of one.
    params : ConvParams
        Canonical, as `ConvParams.canonical` returns them.
    options : ConvOptions
        As the caller gave them.
    """

    target: Target
    params: ConvParams
    options: ConvOptions

    def __post_init__(self) -> None:
        if isinstance(self.target, str):
            object.__setattr__(self, "target", resolve_target(self.target))
        for name, kind in (("target", Target), ("params", ConvParams), ("options", ConvOptions)):
            if not isinstance(getattr(self, name), kind):
                raise bad_type(name, getattr(self, name), f"of type {kind.__name__}")
        modelled_machine(self.target)
        pass_ = self.options.pass_
        if pass_.startswith("FC_TRAINING"):  # a layer's three passes are products, which have one field axis
            if any(axis != Axis(1, 1) for axis in self.params.axes):
                raise bad_argument("pass", pass_, "one without FC_TRAINING where field, kernel or result have several "
                                   "elements")
            object.__setattr__(self, "params", self.params.derived(axes=(Axis(1, 1),)))

    def key(self) -> str:
        """Text that two problems share exactly if they are equal."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        axes = [[*axis[:2], *map(list, axis[2:])] for axis in self.params.axes]
        return {"target": json.loads(self.target.to_json()),
                "params": {**dataclasses.asdict(self.params), "axes": axes}, "options": self.options.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ConvProblem:
        """Read what `to_dict` wrote."""
        try:
            axes = tuple(
                Axis(f, k, FieldTransform(*i), FieldTransform(*w), OutputTransform(*o))
                for f, k, i, w, o in fields["params"]["axes"]
            )
            return cls(Target.from_json(json.dumps(fields["target"])), ConvParams(**{**fields["params"], "axes": axes}),
                       ConvOptions.parse(fields["options"]))
        except PoplibsError:
            raise
        except Exception:  # a mapping of somebody else's raises what it likes
            raise bad_type("fields", fields, "what to_dict returned") from None

