"""Types of the compiled cost model."""

from typing import Any

from ...planner._search import Search

STEPS: tuple[str, ...]

class Model(Search):
    least_work: int
    beside: int
    def __init__(
        self, passes: list[dict[str, Any]], bounds: dict[str, Any], reference: list[dict[str, int]] | None = None
    ) -> None: ...
    def least(self, grains: list[int], works: list[int]) -> list[tuple[int, int]]: ...
    def costs(self, splits: tuple[Any, ...]) -> list[dict[str, int]] | None: ...

def reduction_stages(depth: int, multi_stage: bool = True) -> list[int]: ...
