"""Every number that a public function takes, as each of NumPy's scalars and beyond every bound: served or refused."""

import numpy as np
import pytest
from cases import CASES
from hostile import attempt

KINDS = [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64]
BEYOND = [2**31, 2**64, 10**400, -(10**400), 1e308, *(kind(x) for kind in KINDS[:3] for x in ("nan", "inf", "-inf")),
          np.finfo(np.float16).max, np.finfo(np.float32).max, np.float64(1e308), np.uint64(2**64 - 1), np.int8(-128)]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers():
    """Each case with each of its arguments that is a number, or an option that is one."""
    for case in CASES:
        for name, value in case.make(1).items():
            if is_number(value):
                yield pytest.param(case, (name,), id=f"{case}-{name}")
            elif isinstance(value, dict):
                yield from (pytest.param(case, (name, key), id=f"{case}-{name}-{key}") for key, inner in value.items()
                            if is_number(inner))


NUMBERS = list(_numbers())


def put(arguments, path, value):
    """The arguments with another value at a path of one name or two."""
    if len(path) == 2:
        value = {**arguments[path[0]], path[1]: value}
    return {**arguments, path[0]: value}


def at(arguments, path):
    for name in path:
        arguments = arguments[name]
    return arguments


@pytest.mark.parametrize(("case", "path"), NUMBERS)
def test_a_number_may_be_any_scalar(case, path):
    arguments = case.make(1)
    usual = at(arguments, path)
    with np.errstate(all="ignore"):
        converted = [np.array(usual).astype(kind)[()] for kind in KINDS]
    scalars = [x for x in converted if float(x) == usual]
    served = {type(x) for x in scalars if attempt(case.function, put(arguments, path, x))}
    assert served >= {type(x) for x in scalars if isinstance(x, np.floating) == isinstance(usual, float)}


@pytest.mark.parametrize(("case", "path"), NUMBERS)
def test_a_number_beyond_every_bound_is_served_or_refused_clearly(case, path):
    arguments = case.make(1)
    for value in BEYOND:
        attempt(case.function, put(arguments, path, value))
