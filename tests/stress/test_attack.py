"""An attack on all public functions in processes of their own: no crash, hang, blow-up, or error that names nothing."""

from __future__ import annotations

import sys
import time

import pytest
from attack import attack, calls
from surface import OF_THE_FRAME, doors

from poplibs_py.popsparse import BlockSparseMatrix

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches its processes in /proc")


@pytest.mark.parametrize("count", [800, pytest.param(100_000, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])])
def test_odd_calls_are_served_or_refused_by_name(count: int) -> None:
    quick = count < 10_000  # the same calls in every ordinary run, others each night
    result = attack(1 if quick else int(time.time()), count)
    assert not result.bad, str(result)
    words = result.words
    assert sum(words.values()) == count
    assert words["served"] > count / 5
    assert words["refused"] > count / 5
    assert words["no memory"] < count / 500
    assert words["not drawn"] < count / 500


def test_a_call_is_drawn_again_from_its_number() -> None:
    once, again = calls(3), calls(3)
    drawn = [once(number)[0] for number in range(40)]
    assert drawn == [again(number)[0] for number in range(40)]
    assert len(set(drawn)) > 20


def test_the_surface_has_each_op_class_and_loader_and_no_part_of_programs() -> None:
    names = {door.name for door in doors()}
    assert {"poplin.matmul", "popsparse.BlockSparseMatrix.load", "formats.QuarterArray.load",
            "poplin.ConvPlan.from_json",
            "popops.exp", "cast", "testing.check", "planner.fit"} < names
    assert len(names) > 380
    assert not any(f"{package}.{name}" in names for package, hidden in OF_THE_FRAME.items() for name in hidden)
    assert {door.owner for door in doors() if door.name.endswith("BlockSparseMatrix.astype")} == {BlockSparseMatrix}
