"""Convolutions: the problem, its options and its plan on a modelled machine."""

from .api import conv_cache, plan_convolution
from .axis import Axis, FieldTransform, OutputTransform
from .constraints import ConvConstraints
from .explain import explain_plan
from .facts import plan_facts
from .multi import MultiPlan, plan_convolutions
from .options import ConvOptions
from .params import ConvParams, matmul_params
from .plan import ConvPlan, Partition, Split, tile_ranges
from .problem import ConvProblem

__all__ = ["Axis", "ConvConstraints", "ConvOptions", "ConvParams", "ConvPlan", "ConvProblem", "FieldTransform",
           "MultiPlan", "OutputTransform", "Partition", "Split", "conv_cache", "explain_plan", "matmul_params",
           "plan_convolution", "plan_convolutions", "plan_facts", "tile_ranges"]
