from typing import Any

from ...planner._search import Search

FORWARD_PHASES: tuple[str, ...]
GRAD_A_PHASES: tuple[str, ...]
GRAD_W_PHASES: tuple[str, ...]

class Model(Search):
    def __init__(self, fields: dict[str, Any], bounds: tuple[tuple[int, int], ...]) -> None: ...
    def explain(
        self, splits: tuple[int, ...]
    ) -> tuple[int, int, int, int, int, list[list[tuple[int, int]]]]: ...
