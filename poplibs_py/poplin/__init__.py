"""PopLin: dense matrix multiplication and convolution."""

from .convolution import ConvOptions, ConvParams, ConvPlan, plan_convolution, plan_convolutions
from .gemm.prepared import PreparedMatrix
from .matmul.api import (
    compile_matmul,
    matmul,
    matmul_acc,
    matmul_grouped,
    matmul_grouped_acc,
    plan_matmul,
    prepare,
)

__all__ = [
    "ConvOptions",
    "ConvParams",
    "ConvPlan",
    "PreparedMatrix",
    "compile_matmul",
    "matmul",
    "matmul_acc",
    "matmul_grouped",
    "matmul_grouped_acc",
    "plan_convolution",
    "plan_convolutions",
    "plan_matmul",
    "prepare",
]
