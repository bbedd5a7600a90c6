"""PopLin: dense matrix multiplication and convolution."""

from .matmul import (
    CompiledMatmul,
    PreparedMatrix,
    compile_matmul,
    matmul,
    matmul_acc,
    matmul_grouped,
    matmul_grouped_acc,
    plan_matmul,
    prepare,
)

__all__ = [
    "CompiledMatmul",
    "PreparedMatrix",
    "compile_matmul",
    "matmul",
    "matmul_acc",
    "matmul_grouped",
    "matmul_grouped_acc",
    "plan_matmul",
    "prepare",
]
