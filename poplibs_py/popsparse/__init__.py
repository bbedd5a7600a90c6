"""PopSparse: block-sparse matrices and their products."""

from ..lazy import submodules_on_demand
from . import static
from .advise import Advice, advise
from .host import COOMatrix, CSCMatrix, CSRMatrix
from .matrix import BlockSparseMatrix
from .pattern import BlockPattern
from .patterns import balanced_pattern, banded_pattern, random_matrix, random_pattern
from .softmax.api import (
    bs_softmax,
    bs_softmax_grad,
    bs_softmax_in_place,
    compile_bs_softmax,
    compile_bs_softmax_grad,
    plan_bs_softmax,
    plan_bs_softmax_grad,
)
from .softmax.bound import bs_softmax_bound, bs_softmax_grad_bound
from .softmax.plan import SoftmaxPlan

__all__ = ["Advice", "BlockPattern", "BlockSparseMatrix", "COOMatrix", "CSCMatrix", "CSRMatrix", "SoftmaxPlan",
           "advise", "balanced_pattern", "banded_pattern", "bs_softmax", "bs_softmax_bound", "bs_softmax_grad",
           "bs_softmax_grad_bound", "bs_softmax_in_place", "compile_bs_softmax", "compile_bs_softmax_grad",
           "plan_bs_softmax", "plan_bs_softmax_grad", "random_matrix", "random_pattern", "static"]

__getattr__, __dir__ = submodules_on_demand(__name__)
