"""Types of the compiled search."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

NO_LIMIT: int
MEASURE_NAMES: tuple[str, ...]

class Search:
    visited: int
    def search(
        self, keys: tuple[int, ...], limits: tuple[int, ...], best: tuple[int, ...], deadline: float = 0
    ) -> tuple[tuple[int, ...], tuple[Any, ...], int] | None: ...

class PythonSearch(Search):
    def __init__(
        self,
        axes: Iterable[tuple[int, int, int, int, int, int]],
        splits: Iterable[tuple[int, bool, int]],
        tiles: int,
        work: int,
        cost: Callable[[list[tuple[int, int, int]]], Iterable[Sequence[int] | None]],
    ) -> None: ...
