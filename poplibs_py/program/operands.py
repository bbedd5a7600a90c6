"""What a program asks of the arrays that it writes."""

from __future__ import annotations

from typing import Any

import numpy as np


def overlaps_itself(array: np.ndarray[Any, Any]) -> bool:
    """Whether two elements of an array may share memory, as those of a broadcast one do.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((3, 4))
    >>> overlaps_itself(x.T[::2]), overlaps_itself(np.lib.stride_tricks.sliding_window_view(x[0], 2))
    (False, True)
    """
    if array.flags.c_contiguous or not array.size:
        return False
    reach = array.itemsize  # bytes from the first element's beginning to the last one's end, axis by axis
    for stride, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False
