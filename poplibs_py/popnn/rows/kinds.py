"""What each function of rows is: its operands in the kernel's order, and what of it a kernel may take otherwise."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...kernels.records import ROWS

_ANY = 1 << 62
_STRETCH: int = ROWS["stretch"]
_BROUGHT = 20  # elements of a row that take longer by themselves


class RowOp(NamedTuple):
    """A function of rows, as `kernels/rows/` has it.

    Attributes
    ----------
    operands : tuple of str
        In the kernel's order; any may be absent.
    wide : tuple of int
        Which of them are numbers in the kernel's format; others are FP32.
    brief : bool
        Whether powers may be brief where the first operand is one of 16 bits.
    columns : int
        Of how many elements at most rows may be taken as columns side by side.
    brought : int
        Of how many elements at most rows that lie otherwise may be brought to columns.
    smooths : bool
        Whether a factor that is not 0 asks for FP32.
    """

    operands: tuple[str, ...]
    wide: tuple[int, ...] = ()
    brief: bool = False
    columns: int = 0
    brought: int = 0
    smooths: bool = False


def _op(operands: str, wide: str = "", **more: Any) -> RowOp:
    names = tuple(operands.split())
    return RowOp(names, tuple(names.index(name) for name in wide.split()), **more)


_SOFTMAX = _op("x mask y", "x y", brief=True, columns=_STRETCH, brought=_BROUGHT)
_SOFTMAX_GRAD = _op("grad y x_grad", "grad y x_grad", columns=_STRETCH, brought=_BROUGHT)
_ELEMENT_LOSS = _op("x expected weights mask positive_weights deltas loss")

ROW_OPS = {
    "softmax": _SOFTMAX, "log_softmax": _SOFTMAX,
    "softmax_grad": _SOFTMAX_GRAD, "log_softmax_grad": _SOFTMAX_GRAD,
    "norm": _op("x gamma beta y mean variance", "x y", columns=_ANY),
    "norm_grad": _op("grad x gamma x_grad gamma_parts beta_parts gamma_grad beta_grad", "grad x x_grad", columns=_ANY),
    "norm_grad_blocks": _op("grad x gamma x_grad parts", "grad x x_grad"),
    "block_sums": _op("gamma_parts beta_parts gamma_grad beta_grad"),
    "running": _op("mean variance batch_mean batch_variance new_mean new_variance"),
    "scales": _op("mean variance gamma beta scale shift"),
    "loss": _op("x label expected deltas loss"),
    "cross_entropy": _op("x label weights deltas loss", "x deltas loss", brief=True, columns=_STRETCH, brought=_BROUGHT,
                         smooths=True),
    "squared": _ELEMENT_LOSS, "huber": _ELEMENT_LOSS, "binary": _ELEMENT_LOSS, "logits": _ELEMENT_LOSS,
    "divergence": _ELEMENT_LOSS,
}
"""By the kernel's name."""
