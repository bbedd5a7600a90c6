"""What vertices of a search for the likeliest labels cost on a modelled machine."""

from __future__ import annotations

from ...target import Target


def rank_cycles(target: Target, candidates: int, ranked: int, beams: int) -> int:
    """Cycles to rank some of the candidates among all (``CTCRankCandidates``)."""
    each = -(-ranked // target.workers)
    return 22 + 11 * beams + target.workers * (28 + each * (28 + 3 * ((candidates - 1) // 2)))


def reduce_cycles(target: Target, candidates: int) -> int:
    """Cycles to join candidates (``CTCReduceCandidates``)."""
    return 36 + target.workers * (19 + (candidates - 1) // 2)


def update_cycles(target: Target, beams: int) -> int:
    """Cycles to take a step's beams over (``CTCUpdate``)."""
    return 28 + target.workers * (17 + 7 * beams)
