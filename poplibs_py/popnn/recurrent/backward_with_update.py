"""Backward passes with the weight update in one call, as PopLibs has them: made of the two."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import flag
from ...formats import Array
from .gru import gru_bwd, gru_fwd
from .lstm import lstm_bwd, lstm_fwd
from .params import numbers, optional
from .update import gru_wu, lstm_wu

_FORWARD = ("weights_projection", "init_output", "init_cell_state", "time_steps", "attention", "cell_order",
            "activation", "recurrent_activation", "reset_after", "output_full_sequence", "out_dtype",
            "available_memory_proportion", "strict_memory")
_UPDATE = ("init_output", "cell_order", "reset_after", "out_dtype", "available_memory_proportion", "strict_memory")


class BackwardWithUpdate(NamedTuple):
    """What `lstm_bwd_with_wu` and `gru_bwd_with_wu` return."""

    backward: Any
    weights: Any


def lstm_bwd_with_wu(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                     output: Any = None, intermediates: Any = None, **how: Any) -> BackwardWithUpdate:
    """Return an LSTM's gradients with those of its weights (``popnn::lstm::lstmBwdWithWU``).

    Parameters
    ----------
    grad, x, weights_input, weights_output, biases, intermediates
        As for `lstm_bwd`.
    output : array_like [steps, batch, outputs], optional
        The outputs of all steps, as `lstm_fwd` returned them; without it, or where what it saved is not there, the
        forward pass is run again, once.
    **how
        Keywords of `lstm_bwd` but `out`.

    Returns
    -------
    backward
        As of `lstm_bwd`.
    weights : WeightGradients
        As of `lstm_wu`; of block-sparse weights at their stored blocks.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        As by `lstm_bwd`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((4, 2, 1), np.float32), np.zeros((4, 1, 1), np.float32)
    >>> popnn.lstm_bwd_with_wu(np.ones((3, 1, 1), np.float32), x, w, u).weights.weights_input_grad.shape
    (4, 2, 1)
    """
    layer = x, weights_input, weights_output, biases
    saved, output = _kept(lstm_fwd, layer, intermediates, output, how, planes=4)
    back = lstm_bwd(grad, *layer, intermediates=saved, **how)
    return BackwardWithUpdate(back, lstm_wu(back.gate_grads, x, output, weights_input=weights_input,
                                            weights_output=weights_output, **_some(how, _UPDATE)))


def gru_bwd_with_wu(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                    output: Any = None, intermediates: Any = None, **how: Any) -> BackwardWithUpdate:
    """Return a GRU's, or an AUGRU's, gradients with those of its weights (``popnn::gru::gruBwdWithWU``).

    Parameters
    ----------
    grad, x, weights_input, weights_output, biases, intermediates
        As for `gru_bwd`.
    output : array_like [steps, batch, outputs], optional
        As for `lstm_bwd_with_wu`.
    **how
        Keywords of `gru_bwd` but `out`.

    Returns
    -------
    BackwardWithUpdate
        As of `lstm_bwd_with_wu`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((3, 2, 1), np.float32), np.zeros((3, 1, 1), np.float32)
    >>> popnn.gru_bwd_with_wu(np.ones((3, 1, 1), np.float32), x, w, u).weights.biases_grad.shape
    (3, 1)
    """
    layer = x, weights_input, weights_output, biases
    saved, output = _kept(gru_fwd, layer, intermediates, output, how, planes=3)
    back = gru_bwd(grad, *layer, intermediates=saved, output=output if _full(how) else None, **how)
    return BackwardWithUpdate(back, gru_wu(back.gate_grads, x, output, saved, weights_input=weights_input,
                                           weights_output=weights_output, **_some(how, _UPDATE)))


def _full(how: dict[str, Any]) -> bool:
    return flag("output_full_sequence", how.get("output_full_sequence", True))


def _some(how: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: how[name] for name in names if name in how}


def _kept(forward: Any, layer: tuple[Any, ...], intermediates: Any, output: Any, how: dict[str, Any],
          planes: int) -> tuple[Array, Array]:
    """Return what a forward pass saved, and the outputs of all steps: as they are given, or computed again."""
    full, projection = _full(how), how.get("weights_projection")
    saved = optional("intermediates", intermediates, ("steps", "batch", "planes", "outputs"))
    found = None if saved is None or saved.shape[2] < planes else saved.array
    if found is not None and full and output is not None:
        return found, numbers("output", output, ("steps", "batch", "outputs")).array
    if found is None or full:
        made = forward(*layer, **_some(how, _FORWARD))
        if full:
            return made.intermediates, made.output
        found = made.intermediates
    return found, found[:, :, -1, : found.shape[3] if projection is None else np.shape(projection)[1]]
