"""What a CTC loss is."""

from __future__ import annotations

from dataclasses import dataclass

from ...checks import flag, one_of, whole
from ...errors import bad_argument
from ...formats import Format

_MOST, _MOST_ELEMENTS = 1 << 31, 1 << 40
_TYPES = ("float", "half")


@dataclass(frozen=True)
class LossParams:
    """A CTC loss and its gradient.

    Attributes
    ----------
    batch, time, labels, classes : int
        Of the longest sequence, and classes with the blank.
    data_type, partial_type : {"float", "half"}
        Of probabilities, and of what is summed.
    reduced_classes : bool
        PopLibs' ``enableReducedClassesInLabel``: gradients are kept for the classes of a label only.
    """

    batch: int
    time: int
    labels: int
    classes: int
    data_type: str
    partial_type: str
    reduced_classes: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "time", "labels", "classes"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1, _MOST))
        if self.batch * self.time * max(self.labels, self.classes) > _MOST_ELEMENTS:
            raise bad_argument("batch", self.batch, f"sequences of at most {_MOST_ELEMENTS:,} probabilities in all")
        one_of("data_type", self.data_type, _TYPES)
        one_of("partial_type", self.partial_type, _TYPES)
        flag("reduced_classes", self.reduced_classes)


@dataclass(frozen=True)
class HostLossParams:
    """A CTC loss on this CPU, and how its operand lies.

    Attributes
    ----------
    time, batch, classes : int
        Extents of the operand.
    labels : int
        Of the longest sequence.
    strides : (int, int)
        Bytes from step to step, and from sequence to sequence.
    format, result : Format
        Of the operand and of the gradient.
    blank : int
    logits, zero_infinity : bool
    gradient, softmax : bool
        Whether there is a gradient, and whether it is the logits'.
    """

    time: int
    batch: int
    classes: int
    labels: int
    strides: tuple[int, int]
    format: Format
    result: Format
    blank: int
    logits: bool
    zero_infinity: bool
    gradient: bool
    softmax: bool

    def __str__(self) -> str:
        kind = "ctc_loss_and_gradient" if self.gradient else "ctc_loss"
        return f"{kind} [{self.time}, {self.batch}, {self.classes}] {self.format}, {self.labels} labels"
