"""Types of the compiled search."""

from typing import Any

MINIMIZE_CYCLES: int
MINIMIZE_COST_DIFF: int
MINIMIZE_TEMP: int
MINIMIZE_TILES: int
NO_LIMIT: int

class Model:
    least_work: int
    def __init__(self, passes: list[dict[str, Any]], bounds: dict[str, Any]) -> None: ...
    def search(
        self, goal: dict[str, Any], best: tuple[int, int]
    ) -> tuple[tuple[int, int], dict[str, Any], int] | None: ...
    def costs(self, splits: dict[str, Any]) -> list[dict[str, int]] | None: ...

def reduction_stages(depth: int, multi_stage: bool = True) -> list[int]: ...
