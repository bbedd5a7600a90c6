"""PopLin: dense matrix multiplication and convolution."""

from .bias import add_bias, convolution_bias_update
from .conv.api import (
    calculate_weight_deltas,
    compile_convolution,
    convolution,
    convolution_input_gradient,
    convolution_weight_update,
    convolution_with_output,
    plan_convolution,
    weights_transpose_chans_flip_xy,
)
from .conv.plan import HostConvPlan
from .convolution import ConvOptions, ConvParams, ConvPlan, FieldTransform, OutputTransform, plan_convolutions
from .convolution import ConvOptions, ConvParams, ConvPlan, plan_convolution, plan_convolutions
from .factor.api import cholesky, triangular_solve
from .factor.orthogonal import LUFactors, QRFactors, lu, qr
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
    "FieldTransform",
    "HostConvPlan",
    "OutputTransform",
    "PreparedMatrix",
    "add_bias",
    "calculate_weight_deltas",
    "compile_convolution",
    "compile_matmul",
    "convolution",
    "convolution_bias_update",
    "convolution_input_gradient",
    "convolution_weight_update",
    "convolution_with_output",
    "LUFactors",
    "QRFactors",
    "cholesky",
    "lu",
    "matmul",
    "matmul_acc",
    "matmul_grouped",
    "matmul_grouped_acc",
    "plan_convolution",
    "plan_convolutions",
    "plan_matmul",
    "prepare",
    "weights_transpose_chans_flip_xy",
    "qr",
    "triangular_solve",
]
