"""``poplibs-py plan static-sparse`` and ``dynamic-sparse``: how modelled machines do sparse products."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ..errors import MemoryLimitError, PoplibsError
from ..popsparse.fully_connected import FullyConnectedPlan, plan_fully_connected
from ..popsparse.static_matmul import StaticPlan, plan_static_matmul
from ..popsparse.static_matmul.api import NO_PLAN
from .many import Answer, add_specs
from .sparse_spec import dynamic_problem, static_problem
from .spec import named_as_typed

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["add_parsers", "dynamic_fields", "static_fields"]

_NAMES = {"available_memory_proportion": "amp", "availableMemoryProportion": "amp", "partialsType": "partials",
          "outputs": "out", "inputs": "in", "nz_ratio": "nz", "side": "b"}
"""The planners' arguments as a spec spells them."""


def add_parsers(kinds: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of ``poplibs-py plan``."""
    add_specs(kinds, "static-sparse", "plan products with a sparse operand whose pattern is known",
              "m=4096 k=4096 n=256 b=16 d=0.0625 type=half", static_fields, _static_table)
    add_specs(kinds, "dynamic-sparse", "plan layers with sparse weights whose pattern may change",
              "batch=64 in=1024 out=1024 nz=0.1 b=16 type=half", dynamic_fields, _dynamic_table)


def _said(spec: str, fields: dict[str, Any]) -> str:
    return json.dumps({"spec": spec, **fields}, separators=(",", ":"))


def static_fields(spec: str) -> Answer:
    """Plan the spec of a static product: its JSON line, PopLibs' own error in it where no plan fits."""
    try:
        return _said(spec, _static(spec).golden()), None
    except MemoryLimitError:
        return _said(spec, {"nnzBlocks": static_problem(spec)[0].n_blocks, "error": NO_PLAN}), None
    except PoplibsError as error:
        return None, str(error)


def _static_table(spec: str) -> Answer:
    try:
        return str(_static(spec)), None
    except PoplibsError as error:
        return None, str(error)


def _static(spec: str) -> StaticPlan:
    with named_as_typed(_NAMES, "o:"):
        pattern, n, kind, target, options = static_problem(spec)
        return plan_static_matmul(pattern, n, dtype=kind, target=target, options=options)


def dynamic_fields(spec: str) -> Answer:
    """Plan the spec of a layer whose pattern may change: its JSON line."""
    try:
        return _said(spec, _dynamic(spec).golden()), None
    except PoplibsError as error:
        return None, str(error)


def _dynamic_table(spec: str) -> Answer:
    try:
        return str(_dynamic(spec)), None
    except PoplibsError as error:
        return None, str(error)


def _dynamic(spec: str) -> FullyConnectedPlan:
    with named_as_typed(_NAMES, "o:"):
        params, target, options = dynamic_problem(spec)
        return plan_fully_connected(params, target=target, options=options)
