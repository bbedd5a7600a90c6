"""Running a decoder: all steps at once, or one by one with a scorer's numbers between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, described
from ...formats import Array
from ...ops.one_kernel import OneKernel
from ..ctc.request import checked_lengths
from .lower import nodes_of, state_bytes

_MOST = 128  # POP_MOST_LOG of kernels/ctc/wide.h
_HEAD, _BEAMS_AT = 64, 16  # search_head of kernels/ctc/beams.h: its size, and where it counts the beams


class Decoding:
    """A program that looks at a call's lengths before it runs, and asks a scorer where there is one."""

    def __init__(self, program: OneKernel, scorer: Any) -> None:
        self.program, self.scorer = program, scorer

    def __call__(self, data: Array, data_lengths: Array, log_probs: Array, counts: Array, labels: Array) -> None:
        """Run on the operands and what receives the results: a scorer may fail, and then nothing is written."""
        p = self.program.params
        ends = checked_lengths("data_lengths", data_lengths, p.time)
        logs = np.empty((p.batch, p.paths))
        if self.scorer is None:
            self.program.executable(data, ends, logs, counts, labels)
        else:
            found = np.empty_like(counts), np.empty_like(labels)
            self._by_steps((data, ends, logs, *found), ends)
            counts[...], labels[...] = found
        with np.errstate(all="ignore"):
            log_probs[...] = logs.astype(np.float32).astype(log_probs.dtype)

    def _by_steps(self, operands: tuple[Array, ...], ends: Array) -> None:
        """Take one step after another; before each, what the scorer says of the prefixes that there are."""
        p = self.program.params
        state = np.zeros((p.batch, state_bytes(p)), np.uint8)
        bonus = np.zeros((p.batch, p.beams, p.classes), np.float32)
        known: list[dict[int, Array]] = [{} for _ in range(p.batch)]
        self.program.executable(*operands, state, bonus, np.array([0, 0], np.int32))
        for t in range(p.time):
            for n in np.flatnonzero(ends > t):
                self._score(state[n], bonus[n], known[n])
            self.program.executable(*operands, state, bonus, np.array([t, t + 1], np.int32))

    def _score(self, state: Array, bonus: Array, known: dict[int, Array]) -> None:
        """What the scorer says of a sequence's beams, each prefix once."""
        count, room = int(state[_BEAMS_AT : _BEAMS_AT + 8].view(np.int64)[0]), nodes_of(self.program.params)
        words = state[_HEAD:].view(np.int32)
        parents, symbols, nodes = words[:room], words[room : 2 * room], words[2 * room : 2 * room + count]
        for beam, node in enumerate(nodes.tolist()):
            if node not in known:
                known[node] = self._numbers(_prefix(parents, symbols, node))
            bonus[beam] = known[node]

    def _numbers(self, prefix: tuple[int, ...]) -> Array:
        classes = self.program.params.classes
        said, allowed = self.scorer(prefix), f"{classes} numbers below {_MOST}, one for each class"
        try:
            scores = np.asarray(said, np.float32)
        except (TypeError, ValueError) as error:
            raise bad_type("scorer", f"{described(said)} for the prefix {described(prefix)}", allowed) from error
        if scores.shape != (classes,) or not (scores < _MOST).all():
            raise bad_argument("scorer", f"{described(scores)} for the prefix {described(prefix)}", allowed)
        return scores


def _prefix(parents: Array, symbols: Array, node: int) -> tuple[int, ...]:
    found = []
    while parents[node] >= 0:
        found.append(int(symbols[node]))
        node = int(parents[node])
    return tuple(found[::-1])
