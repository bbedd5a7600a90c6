from typing import Any

CONSISTENT: int
LONG: int
STREAM_BYTES: dict[str, int]
ATTENTION_PIECES: int
ROWS: dict[str, Any]

def records() -> dict[str, tuple[int, list[tuple[str, str, int, int, int]]]]: ...
def choices() -> dict[str, dict[str, int]]: ...
def formats() -> dict[str, tuple[int, int, dict[str, int]]]: ...
