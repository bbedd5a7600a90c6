"""PopLibs' ``popsparse::experimental``: products with block-sparse operands or results whose pattern is known."""

from .api import bs_matmul, bs_matmul_sampled, plan_bs_matmul, plan_bs_matmul_sampled
from .options import BsMatmulOptions
from .params import BsMatmulParams
from .plan import BsMatmulPlan

__all__ = ["BsMatmulOptions", "BsMatmulParams", "BsMatmulPlan", "bs_matmul", "bs_matmul_sampled", "plan_bs_matmul",
           "plan_bs_matmul_sampled"]
