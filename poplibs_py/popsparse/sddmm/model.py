"""What both operands of a sampled product are read as, where and how."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...kernels.registry import select
from ...memo import tabled
from ...program import whole_lines
from ..operands import DenseLayout
from ..spmm.model import compute_format_of
from ..spmm.params import itemsize_of


@tabled(128)
def sampled_compute_format(y_dtype: str, x_dtype: str) -> str:
    """Return what both operands of a gradient of the weights are read as, where they lie well."""
    if y_dtype == x_dtype == "float16":
        try:
            select("sparse", "sample", "float16,float16->any")
        except UnsupportedError:
            return "float32"
        return "float16"
    return compute_format_of(y_dtype, x_dtype)


def lies_well(operand: DenseLayout, compute_format: str) -> bool:
    """Whether a kernel can read an operand where it is."""
    unit = operand.strides[2] == itemsize_of(operand.format)
    return operand.format == compute_format and not operand.scale and unit and operand.aligned


def row_bytes(columns: int, compute_format: str) -> int:
    """Return the bytes of a row decoded, from a cache line on."""
    return whole_lines(columns * itemsize_of(compute_format))
