"""``poplibs-py plan static-sparse``, ``dynamic-sparse`` and ``partition``: how modelled machines do sparse products."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from ..errors import MemoryLimitError
from ..popsparse import BlockSparseMatrix
from ..popsparse.fully_connected import FullyConnectedPlan, plan_fully_connected
from ..popsparse.partitioner import Partitioner
from ..popsparse.partitioner.api import BucketOverflowError
from ..popsparse.static_matmul import StaticPlan, plan_static_matmul
from ..popsparse.static_matmul.api import NO_PLAN
from .many import add_specs
from .sparse_spec import dynamic_problem, partition_problem, static_problem
from .spec import named_as_typed

_NAMES = {"available_memory_proportion": "amp", "availableMemoryProportion": "amp", "partialsType": "partials",
          "outputs": "out", "inputs": "in", "nz_ratio": "nz", "side": "b"}
"""The planners' arguments as a spec spells them."""


def add_parsers(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of ``poplibs-py plan``."""
    add_specs(kinds, "static-sparse", "plan products with a sparse operand whose pattern is known",
              "m=4096 k=4096 n=256 b=16 d=0.0625 type=half", static_fields, _static_table)
    add_specs(kinds, "dynamic-sparse", "plan layers with sparse weights whose pattern may change",
              "batch=64 in=1024 out=1024 nz=0.1 b=16 type=half", dynamic_fields, _dynamic_table)
    add_specs(kinds, "partition", "put patterns into the buckets of a layer whose pattern may change",
              "dims=8,8,4 grains=1,1,4 x=0,4 y=0,4 z=0 rows=0,1;2;-;-;-;5;-;7 nz=8 meta=120", partition_fields,
              _partition_table)


def _said(spec: str, fields: dict[str, Any]) -> str:
    return json.dumps({"spec": spec, **fields}, separators=(",", ":"))


def static_fields(spec: str) -> str:
    """Plan the spec of a static product: its JSON line, PopLibs' own error in it where no plan fits."""
    try:
        return _said(spec, _static(spec).golden())
    except MemoryLimitError:
        return _said(spec, {"nnzBlocks": static_problem(spec)[0].n_blocks, "error": NO_PLAN})


def _static_table(spec: str) -> str:
    return str(_static(spec))


def _static(spec: str) -> StaticPlan:
    with named_as_typed(_NAMES, "o:"):
        pattern, n, kind, target, options = static_problem(spec)
        return plan_static_matmul(pattern, n, dtype=kind, target=target, options=options)


def dynamic_fields(spec: str) -> str:
    """Plan the spec of a layer whose pattern may change: its JSON line."""
    return _said(spec, _dynamic(spec).golden())


def _dynamic_table(spec: str) -> str:
    return str(_dynamic(spec))


def _dynamic(spec: str) -> FullyConnectedPlan:
    with named_as_typed(_NAMES, "o:"):
        params, target, options = dynamic_problem(spec)
        return plan_fully_connected(params, target=target, options=options)


def partition_fields(spec: str) -> str:
    """Put the pattern of a spec into buckets: its JSON line, PopLibs' own error in it where it does not fit."""
    try:
        return _said(spec, _partition(spec))
    except BucketOverflowError as error:
        return _said(spec, {"error": error.original})


def _partition(spec: str) -> dict[str, Any]:
    """The buckets of a spec, whose values are 1, 2, 3 …, and whose blocks are told by number."""
    layout, pattern = partition_problem(spec)
    partitioner = Partitioner(layout)
    numbers = np.arange(pattern.n_blocks, dtype=np.float32) + (layout.side == 1)
    blocks = np.ascontiguousarray(np.broadcast_to(numbers[:, None, None], (numbers.size, layout.side, layout.side)))
    data = partitioner.create_sparsity_data(BlockSparseMatrix(pattern, blocks))
    groups, held, words = (list(column) for column in zip(*partitioner.buckets_of(pattern).sizes(), strict=True))
    fields: dict[str, Any] = {"subGroups": groups, "nnz": held, "metaCost": words, "header": list(data.overflow),
                              "fwdBuckets": list(map(_written, data.meta_info[:, :layout.meta_room].tolist()))}
    values = data.values.astype(np.int64)
    if layout.side == 1:
        return fields | {"nzValues": values.tolist()}
    firsts = values[:, : layout.block_room * layout.side**2 : layout.side**2].tolist()
    return fields | {"nzBlockIndices": [row[:count] for row, count in zip(firsts, held, strict=True)]}


def _written(bucket: list[int]) -> list[int]:
    """A bucket's words as far as they are written, with the 0 at the end."""
    at = 0
    while bucket[at]:
        at += bucket[at + 4]
    return bucket[: at + 1]


def _partition_table(spec: str) -> str:
    fields = _partition(spec)
    heads = f"{'bucket':>6}{'sub-groups':>12}{'blocks':>8}{'words':>8}"
    sizes = zip(fields["subGroups"], fields["nnz"], map(len, fields["fwdBuckets"]), strict=True)
    rows = [f"{i:>6}{groups:>12}{blocks:>8}{words:>8}" for i, (groups, blocks, words) in enumerate(sizes)]
    x, y, z = fields["header"][:3]
    return "\n".join([heads, *rows, f"buckets travel {x} x {y} x {z} steps along x, y and z"])
