"""The candidates of a dynamic sparse layer's plan, and what the compiled model is told of each.

A candidate is a method, how tiles multiply in each pass, with a way of exchange for the gradient of the weights. Its
splits are found by ``src_cython/planner/fully_connected``, which has the costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...target import TYPE_SIZES, Target
from ...target.exchange import scaled_exchange_rate
from ._model import Model
from .options import FullyConnectedOptions
from .params import FullyConnectedParams

_VERTICES = ("Forward", "GradA", "Transpose", "ForwardAMPBlock", "TransposeAMPBlock", "GradW", "GradWBlock",
             "GradWAMPBlock")  # in the order of cycles.pxi
_AMP_BATCH = {"float": 8, "half": 16}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A method and a way of exchange. PopLibs' ``Method`` and ``ExchangeAndMappingPlan``.

    Attributes
    ----------
    side, z_grouping : int
        Of a block, and columns of the batch that vertices take together.
    forward, grad_a, grad_w : str
        The vertices of the passes.
    exchanges_buckets : bool
        Whether the gradient of the weights exchanges buckets, not the dense operands.
    """

    side: int
    z_grouping: int
    forward: str
    grad_a: str
    grad_w: str
    exchanges_buckets: bool

    @property
    def grouping(self) -> tuple[int, int, int, int]:
        """Groups, x, y and z that a vertex takes together."""
        return 1, self.side, self.side, self.z_grouping


def candidates(params: FullyConnectedParams, options: FullyConnectedOptions, target: Target) -> Iterator[Candidate]:
    """Yield the candidates in PopLibs' order."""
    side, kind = params.block, params.data_type
    if side == 1:
        methods = [(target.vector_width(kind), "Forward", "Transpose" if options.shared_buckets else "GradA", "GradW")]
    else:
        methods = [(1, "ForwardAMPBlock", "TransposeAMPBlock", "GradWBlock")]
        if params.batch % _AMP_BATCH[kind] == 0:
            methods.append((_AMP_BATCH[kind], "ForwardAMPBlock", "TransposeAMPBlock", "GradWAMPBlock"))
    asked = options.plan_constraints.get("exchange.gradWExchangeBuckets")
    ways = [False, True] if asked is None else [str(asked).lower() == "true"]
    for z_grouping, forward, grad_a, grad_w in methods:
        for way in ways if options.do_grad_w_pass else ways[:1]:
            yield Candidate(side, z_grouping, forward, grad_a, grad_w, way)


def make_model(params: FullyConnectedParams, options: FullyConnectedOptions, target: Target,
               candidate: Candidate) -> Model:
    """Return the compiled model of a candidate; the options' type of partial sums is the one in use."""
    kind, partials = params.data_type, options.partials_type
    vertex = {name: i for i, name in enumerate(_VERTICES)}
    fields: dict[str, Any] = {
        "machine": {"tiles": target.tiles, "workers": target.workers, "exchange_rate": scaled_exchange_rate(target),
                    "exchange_atom": max(1, int(target.exchange_bytes_per_cycle)),
                    "data_path_bits": target.data_path_bits, "units": target.units(kind, partials),
                    "bus_sharing": target.exchange_bus_sharing and target.tiles_per_exchange_bus == 2},
        "groups": params.groups,
        "x": params.outputs // candidate.side,
        "y": params.inputs // candidate.side,
        "z": -(-params.batch // candidate.z_grouping),
        "side": candidate.side,
        "z_grouping": candidate.z_grouping,
        "non_zero": params.blocks,
        "size": TYPE_SIZES[kind],
        "partial_size": TYPE_SIZES[partials],
        "forward": vertex[candidate.forward],
        "grad_a": vertex[candidate.grad_a] if options.do_grad_a_pass else -1,
        "grad_w": vertex[candidate.grad_w],
        "shared_buckets": options.shared_buckets,
        "exchanges_buckets": candidate.exchanges_buckets,
        "updates": options.do_grad_w_pass,
        "ratio": params.nz_ratio,
        "oversize": options.meta_info_bucket_oversize_proportion,
    }
    wanted = [options.plan_constraints.get(f"partition.{axis}") for axis in "xyz"]
    bounds = ((1, target.tiles), *((1, target.tiles) if n is None else (int(n), min(int(n), target.tiles))
                                   for n in wanted))
    return Model(fields, bounds)
