"""Types of the compiled cost model."""

from typing import Any

from ...planner._search import Search

STEPS: tuple[str, ...]

class Model(Search):
    least_work: int
    least: tuple[int, int]
    least_of_others: int
    def __init__(
        self, passes: list[dict[str, Any]], bounds: dict[str, Any], reference: list[dict[str, int]] | None = None
    ) -> None: ...
    def least_of_grains(self, grains: list[int], works: list[int]) -> list[tuple[int, int]]: ...
    def search_grains(
        self,
        grains: list[int],
        works: list[int],
        places: list[int],
        keys: tuple[int, ...],
        limits: tuple[int, ...],
        best: tuple[int, ...],
        place: int,
        deadline: float = 0,
    ) -> tuple[tuple[int, ...], int, tuple[Any, ...] | None]: ...
    def costs(self, splits: tuple[Any, ...]) -> list[dict[str, int]] | None: ...

def reduction_stages(depth: int, multi_stage: bool = True) -> list[int]: ...
