"""Convolutions: the problem, its options and its plan on a modelled machine."""

from poplibs_py.poplin.convolution.api import conv_cache, plan_convolution
from poplibs_py.poplin.convolution.axis import Axis, FieldTransform, OutputTransform
from poplibs_py.poplin.convolution.options import ConvOptions
from poplibs_py.poplin.convolution.params import ConvParams, matmul_params
from poplibs_py.poplin.convolution.plan import ConvPlan, Partition, Split, tile_ranges
from poplibs_py.poplin.convolution.problem import ConvProblem

__all__ = [
    "Axis",
    "ConvOptions",
    "ConvParams",
    "ConvPlan",
    "ConvProblem",
    "FieldTransform",
    "OutputTransform",
    "Partition",
    "Split",
    "conv_cache",
    "matmul_params",
    "plan_convolution",
    "tile_ranges",
]
