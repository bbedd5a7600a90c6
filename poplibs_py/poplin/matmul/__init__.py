"""Dense products: params, options, plan, lowering and the calls; see `poplibs_py.poplin`."""

from .api import (
    compile_matmul,
    matmul,
    matmul_acc,
    matmul_grouped,
    matmul_grouped_acc,
    plan_matmul,
    prepare,
)
from .plan import HostPlan
from .prepared import PreparedMatrix

__all__ = [
    "HostPlan",
    "PreparedMatrix",
    "compile_matmul",
    "matmul",
    "matmul_acc",
    "matmul_grouped",
    "matmul_grouped_acc",
    "plan_matmul",
    "prepare",
]
