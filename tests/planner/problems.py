"""Small problems to plan: products, which are convolutions of one field element."""

from __future__ import annotations

from typing import Any

from poplibs_py.poplin.tile_conv import ConvOptions, ConvProblem, matmul_params
from poplibs_py.target import Target


def problem(columns: int = 96, tiles: int = 32, **options: Any) -> ConvProblem:
    params = matmul_params(1, 128, 64, columns, "half").canonical()
    return ConvProblem(Target.small(tiles), params, ConvOptions.parse({"pass": "NONE_MATMUL", **options}))
