"""What a search for the likeliest labels is, and how a decoder's operand lies."""

from __future__ import annotations

from dataclasses import dataclass

from ...checks import whole
from ...formats import Format

_MOST = 1 << 31


@dataclass(frozen=True)
class InferenceParams:
    """A search for the likeliest labels by beams.

    Attributes
    ----------
    batch, classes, beams : int
        Classes with the blank; sequences that are kept.
    """

    batch: int
    classes: int
    beams: int

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("classes", 2), ("beams", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least, _MOST))


@dataclass(frozen=True)
class DecoderParams:
    """How sequences are decoded, and how the operand lies.

    Attributes
    ----------
    time, batch, classes : int
        Extents of the operand.
    strides : (int, int)
        Bytes from step to step, and from sequence to sequence.
    format : Format
    blank : int
    logits : bool
    beams : int
        That are kept at each step; 0 for the best path.
    paths : int
        That are told.
    threshold : float
        Logarithm below the best from which nothing is kept.
    by_steps : bool
        Whether each call takes some of the steps, and looks at what is scored between them.
    """

    time: int
    batch: int
    classes: int
    strides: tuple[int, int]
    format: Format
    blank: int
    logits: bool
    beams: int
    paths: int
    threshold: float
    by_steps: bool

    def __str__(self) -> str:
        kind = f"ctc_beam_search_decoder, {self.beams} beams," if self.beams else "ctc_greedy_decoder"
        return f"{kind} [{self.time}, {self.batch}, {self.classes}] {self.format}"
