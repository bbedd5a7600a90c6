"""The passes of a cell, and those of them that PopLibs has in one call: backward with the weight update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...checks import flag
from ...formats import Array
from .cell import Cell
from .params import numbers, optional

_FORWARD = ("weights_projection", "init_output", "init_cell_state", "time_steps", "attention", "cell_order",
            "activation", "recurrent_activation", "reset_after", "output_full_sequence", "out_dtype",
            "available_memory_proportion", "strict_memory")
_UPDATE = ("init_output", "cell_order", "reset_after", "out_dtype", "available_memory_proportion", "strict_memory")


class Passes(NamedTuple):
    """A cell, and its functions."""

    cell: Cell
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    update: Callable[..., Any]


class BackwardWithUpdate(NamedTuple):
    """What `lstm_bwd_with_wu` and `gru_bwd_with_wu` return."""

    backward: Any
    weights: Any


def backward_with_update(passes: Passes, grad: Any, layer: tuple[Any, ...], output: Any, intermediates: Any,
                         how: dict[str, Any]) -> BackwardWithUpdate:
    """Return what `lstm_bwd_with_wu` and its kin do, of the operands of their layer and the keywords of both."""
    cell, (x, weights_input, weights_output, _) = passes.cell, layer
    saved, output = _kept(passes, layer, intermediates, output, how)
    more = {"output": output if _full(how) else None} if "output" in cell.reads else {}
    back = passes.backward(grad, *layer, intermediates=saved, **more, **how)
    of_reset = {"intermediates": saved} if cell.resets else {}
    update = passes.update(getattr(back, cell.grads_name), x, output, weights_input=weights_input,
                           weights_output=weights_output, **of_reset, **_some(how, _UPDATE))
    return BackwardWithUpdate(back, update)


def _full(how: dict[str, Any]) -> bool:
    return flag("output_full_sequence", how.get("output_full_sequence", True))


def _some(how: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: how[name] for name in names if name in how}


def _kept(passes: Passes, layer: tuple[Any, ...], intermediates: Any, output: Any,
          how: dict[str, Any]) -> tuple[Array, Array]:
    """Return what a forward pass saved, and the outputs of all steps: as they are given, or computed again."""
    full, projection, planes = _full(how), how.get("weights_projection"), min(passes.cell.kept.values())
    saved = optional("intermediates", intermediates, ("steps", "batch", "planes", "outputs"))
    found = None if saved is None or saved.shape[2] < planes else saved.array
    if found is not None and full and output is not None:
        return found, numbers("output", output, ("steps", "batch", "outputs")).array
    if found is None or full:
        made = passes.forward(*layer, **_some(how, _FORWARD))
        if full:
            return made.intermediates, made.output
        found = made.intermediates
    return found, found[:, :, -1, : found.shape[3] if projection is None else np.shape(projection)[1]]
