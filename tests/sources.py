"""What the sources of the house hold, without reading expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def functions_of(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module of Python, those within others too."""
    nodes: list[ast.AST] = [ast.parse(text)]
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for within in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, within, ())
