"""PopLin: dense matrix multiplication and convolution, factorisations, grids, statistics of normalisation."""

from ..lazy import submodules_on_demand
from . import multiconv
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
from .factor.api import cholesky, triangular_solve
from .factor.gradients import SolveGradients, cholesky_grad, lu_grad, qr_grad, triangular_solve_grad
from .factor.orthogonal import LUFactors, QRFactors, lu, qr
from .gemm.prepared import PreparedMatrix
from .grids import Grid, linspace, meshgrid2d
from .norms import (
    NormParamGradients,
    NormStatistics,
    norm_gradients,
    norm_param_gradients,
    norm_statistics,
    norm_statistics_gradients,
    norm_whiten,
    normalise,
)
from .product.api import (
    compile_matmul,
    matmul,
    matmul_acc,
    matmul_grouped,
    matmul_grouped_acc,
    plan_matmul,
    prepare,
)
from .tile_conv import ConvOptions, ConvParams, ConvPlan, FieldTransform, OutputTransform, plan_convolutions

__all__ = ["ConvOptions", "ConvParams", "ConvPlan", "FieldTransform", "Grid", "HostConvPlan", "LUFactors",
           "NormParamGradients", "NormStatistics", "OutputTransform", "PreparedMatrix", "QRFactors", "SolveGradients",
           "add_bias", "calculate_weight_deltas", "cholesky", "cholesky_grad", "compile_convolution", "compile_matmul",
           "convolution", "convolution_bias_update", "convolution_input_gradient", "convolution_weight_update",
           "convolution_with_output", "linspace", "lu", "lu_grad", "matmul", "matmul_acc", "matmul_grouped",
           "matmul_grouped_acc", "meshgrid2d", "multiconv", "norm_gradients", "norm_param_gradients", "norm_statistics",
           "norm_statistics_gradients", "norm_whiten", "normalise", "plan_convolution", "plan_convolutions",
           "plan_matmul", "prepare", "qr", "qr_grad", "triangular_solve", "triangular_solve_grad",
           "weights_transpose_chans_flip_xy"]

__getattr__, __dir__ = submodules_on_demand(__name__)
