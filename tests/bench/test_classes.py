"""The table of classes has rows for every floor, and its figures are what its calls took."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from poplibs_py.popops.elementwise.table import ELEMENTWISE

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def classes(bench):
    return bench("bench_classes")


def test_every_floor_is_that_of_a_class(classes):
    assert set(classes.FLOORS) - {name for name, _, _ in classes.rows()} == {"exp FP32, of its bound"}


def test_rows_differ_and_every_elementwise_op_has_some(classes):
    rows = Counter((name, label) for name, label, _ in classes.rows())
    assert set(rows.values()) == {1}
    assert {label.split()[0] for _, label in rows} >= set(ELEMENTWISE)


def test_a_median_is_of_the_best_peers_and_held_to_its_floor(classes, monkeypatch):
    monkeypatch.setitem(classes.FLOORS, "a", {"": 2, "torch": 2.5})
    found = [{"torch": 2.0, "numpy": 1.5}, {"torch, packed": 3.0}, {}, {"numpy": 9.0}]
    none = ["", ""]
    assert list(classes.summary("a", found)) == [["a", "best", "3", "3.00", "2", "1.50", "9.00", *none],
                                                 ["a", "torch", "2", "2.50", "2.5", "2.00", "3.00", *none]]
    assert list(classes.summary("none", [{"numpy": 1.0}])) == [["none", "best", "1", "1.00", "", "1.00", "1.00", *none]]


def test_the_greatest_of_limits_tells_what_a_ratio_is_at_most(classes):
    found = [{"limit, a copy": 0.1, "limit, products": 0.5, "torch": 2.0}, {"limit, products": 0.8, "torch": 1.2}]
    [line] = classes.summary("a", found)
    assert line[3:] == ["1.60", "", "1.20", "2.00", "0.65", f"{(2.0 / 0.5 + 1.2 / 0.8) / 2:.2f}"]


def test_limits_are_timed_beside_ours_and_take_as_long_as_their_work(bench):
    limits, conv = bench("least_times"), bench("bench_conv")
    layer = conv.Layer((3, 4), (5, 6), (3, 2), stride=2, padding=1, dilation=2)
    met = sum(0 <= 2 * y - 1 + 2 * i < 5 and 0 <= 2 * x - 1 + 2 * j < 6
              for y in range(layer.output[0]) for i in range(3) for x in range(layer.output[1]) for j in range(2))
    assert layer.met == 2 * 3 * 4 * met < layer.flops
    work = limits.products(1e6, "float32")
    assert work() * work.times == pytest.approx(1e6)
    copy = limits.traffic(1 << 20)
    assert copy.times == 1
    assert [array.nbytes for array in copy.call.args] == [1 << 19] * 2


def test_rows_are_printed_before_their_class():
    done = subprocess.run([sys.executable, str(BENCH / "bench_classes.py"), "rearranged", "--only", "pad small",
                           "--seconds", "0.01"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("rearranged: pad small: ours ")
    [line] = [line for line in done.stdout.splitlines() if line.startswith("| rearranged")]
    assert float(line.split("|")[4]) > 0
