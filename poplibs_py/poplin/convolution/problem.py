"""A planning problem: machine, convolution and options in one hashable record with a JSON form."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from poplibs_py.poplin.convolution.axis import Axis, FieldTransform, OutputTransform
from poplibs_py.poplin.convolution.options import ConvOptions
from poplibs_py.poplin.convolution.params import ConvParams
from poplibs_py.target import Target

__all__ = ["ConvProblem"]


@dataclasses.dataclass(frozen=True)
class ConvProblem:
    """What is planned. `params` are canonical, `options` as the caller gave them."""

    target: Target
    params: ConvParams
    options: ConvOptions

    def key(self) -> str:
        """Text that two problems share exactly if they are equal."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "target": json.loads(self.target.to_json()),
            "params": {**dataclasses.asdict(self.params), "axes": [list(map(_plain, a)) for a in self.params.axes]},
            "options": self.options.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ConvProblem:
        """Read what `to_dict` wrote."""
        axes = tuple(
            Axis(f, k, FieldTransform(*i), FieldTransform(*w), OutputTransform(*o))
            for f, k, i, w, o in fields["params"]["axes"]
        )
        return cls(
            Target.from_json(json.dumps(fields["target"])),
            ConvParams(**{**fields["params"], "axes": axes}),
            ConvOptions.parse(fields["options"]),
        )


def _plain(value: int | tuple[int, ...]) -> int | list[int]:
    return list(value) if isinstance(value, tuple) else value
