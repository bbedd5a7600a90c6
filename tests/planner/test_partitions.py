"""Lists of splits have all of them, and no other."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.planner.partitions import choices_within, least_splits


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_one_split_for_each_size(extent, most):
    first = {}
    for parts in range(1, min(extent, most) + 1):
        first.setdefault(-(-extent // parts), parts)
    assert least_splits(extent, most).tolist() == sorted(first.values())


@given(st.integers(1, 60), st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True), max_size=4))
def test_every_choice_within_a_limit(limit, options):
    found = choices_within(limit, [np.array(one) for one in options])
    rows = sorted(zip(*(column.tolist() for column in found), strict=True))
    assert rows == sorted(choice for choice in itertools.product(*options) if prod(choice) <= limit and choice)
