"""What receives several results: arrays of a tuple `out`."""

from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import F143, QuarterArray

X = np.random.default_rng(3).normal(size=(4, 16)).astype(np.float32)
CODES = popops.cast(X, F143)
CALLS = {
    "a loss": lambda **more: popnn.cross_entropy(X, [0, 1, 2, 3], out_dtype=F143, **more),
    "a norm's gradient": lambda **more: popnn.layer_norm_grad(X, X, np.ones(16, np.float32), out_dtype=F143, **more),
    "a grid": lambda **more: poplin.meshgrid2d(CODES[0], CODES[1], **more),
    "keys and values": lambda **more: popops.sort_key_value(CODES, CODES, **more),
}


def quarters(due: Any, scale: int) -> tuple[QuarterArray, ...]:
    return tuple(QuarterArray(np.full(x.shape, 7, np.uint8), F143, scale) for x in due)


@pytest.mark.parametrize("name", CALLS)
def test_a_quarter_array_receives_the_codes_of_its_result(name: str) -> None:
    due = CALLS[name]()
    out = quarters(due, 0)
    got = CALLS[name](out=out)
    for one, own, x in zip(got, out, due, strict=True):
        assert one is own
        np.testing.assert_array_equal(one.codes, x.view(np.uint8))


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"a norm's gradient"}))  # which receives at any scale
def test_a_quarter_array_with_a_scale_is_refused_by_its_place(name: str) -> None:
    due = CALLS[name]()
    out = (*quarters(due[:1], 0), *quarters(due[1:], 3))
    with pytest.raises(InvalidArgumentError, match=r"out\[1\]: got a QuarterArray with scale 3"):
        CALLS[name](out=out)
    assert all((x.codes == 7).all() for x in out)
