"""How many examples a test draws that draws another number of them than the profile says."""

from __future__ import annotations

from hypothesis import settings

MOST = 20
"""How many times as many, at most: of some a tenth of a second goes by for each, and no test may take ten minutes."""


def examples(ordinary: int, profile: settings | None = None) -> int:
    """So many in an ordinary run; at levels, and nightly, the share of them that the profile has of its own."""
    of_profile, of_ordinary = (profile or settings.default).max_examples, settings.get_profile("ordinary").max_examples
    return min(-(-ordinary * of_profile // of_ordinary), MOST * ordinary)
