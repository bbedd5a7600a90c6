"""What tests of functions of rows share."""

import numpy as np
import pytest
from result_bits import bits

from poplibs_py import popnn
from poplibs_py.kernels import Selection, kernels, registry
from poplibs_py.memo import forget
from poplibs_py.popnn.rows import plan as rows_plan


def one_nan(result):
    """A result whose NaNs are one: their signs follow the order of the operands of a sum, which is the compiler's."""
    if isinstance(result, tuple):
        return tuple(map(one_nan, result))
    return result if isinstance(result, int) else np.where(np.isnan(result), result.dtype.type(np.nan), result)


@pytest.fixture
def rows_at(monkeypatch):
    """Call a function of rows by a level's kernels, or as always without one; return its result's bits, NaNs being one.

    Where a level has no kernel for some formats, another one's serves: never for the formats that a call names.
    """
    def run(level, own, name, *operands, **how):
        def select(family, op, formats):
            found = [k for k in kernels("rows") if (k.level, k.op, k.formats) == (level, op, formats)]
            if family != "rows" or not found:
                assert family != "rows" or formats != own or level is None
                return registry.select(family, op, formats)
            [kernel] = found
            return Selection(kernel, ())

        monkeypatch.setattr(rows_plan, "select", select)
        forget()
        request = getattr(popnn, name).function(*operands, **how)
        request.run()
        return bits(one_nan(request.result()))

    yield run
    forget()
