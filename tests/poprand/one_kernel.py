"""One kernel of the random family, called by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from poplibs_py.kernels.registry import Kernel
from poplibs_py.poprand import counter
from poplibs_py.program import Executable

Array = np.ndarray[Any, Any]


def run(kernel: Kernel, where: counter.Place, call: counter.Call, out: Array, source: Array | None = None,
        threads: int = 1) -> Array:
    """Fill `out` with one kernel, whatever its level."""
    shares = np.array([(k, threads) for k in range(threads)], dtype=[("share", np.int64), ("shares", np.int64)])
    operands = 2 if source is None else 3
    program = Executable([[(kernel.address, shares, np.arange(threads))]], operands, threads, 0, 0, threads)
    count = out.nbytes if kernel.op == "bits" else out.size
    packed = counter.operand(where, count, call.packed())
    program(*([out, packed] if source is None else [source, out, packed]))
    return out
