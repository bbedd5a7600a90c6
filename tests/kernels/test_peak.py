"""The peak probes do the work that they say they do."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.kernels import kernels
from poplibs_py.kernels.peak import peak_flop_rate, peak_probes
from poplibs_py.kernels.records import record_of


def each(op: str) -> list:
    return [pytest.param(k, id=f"{k.name}-{k.level}") for k in kernels("peak") if k.op == op]


@pytest.mark.parametrize("kernel", each("fma"))
def test_a_probe_counts_its_block_once_a_round(kernel):
    probe = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address)
    assert probe(1000) == 2 * 1000 * math.prod(kernel.block)
    assert probe(0) == 0


@pytest.mark.parametrize("kernel", each("walk"))
def test_a_walk_counts_the_blocks_of_its_list(kernel):
    rows, columns, deep = kernel.block
    x, values = np.ones((16 * deep, columns), np.float32), np.ones((64, rows, deep), np.float32)
    places = np.ascontiguousarray(np.arange(64, dtype=np.int32)[::-1] % 16)
    walk = record_of("pop_peak_walk", x=x.ctypes.data, values=values.ctypes.data, list=places.ctypes.data,
                     x_row=x.strides[0], blocks=64)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(kernel.address)
    assert function(walk.ctypes.data) == 2 * 64 * rows * columns * deep
    walk["blocks"] = 0
    assert function(walk.ctypes.data) == 0


@pytest.mark.parametrize("kernel", each("rows"))
def test_rows_are_moved_as_the_list_says(kernel):
    rng = np.random.default_rng(1)
    room = np.zeros(2 * 64 * 64 + 16, np.float32)
    table, rows = room[-room.ctypes.data % 64 // 4:][:2 * 64 * 64].reshape(2, 64, 64)
    table[...], rows[...] = rng.integers(-9, 9, (2, 64, 64))
    places = rng.permutation(64)
    before, turned = table.copy(), rows[np.argsort(places)]
    bags = np.concatenate([table[places].reshape(4, 16, 64).sum(1), rows[4:]])
    due = {"gather": (table[places], before), "scatter": (rows.copy(), turned), "add": (rows.copy(), table + turned),
           "bags": (bags, before)}
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(kernel.address)
    spec = record_of("pop_peak_rows", table=table.ctypes.data, rows=rows.ctypes.data, list=places.ctypes.data,
                     bytes=256, count=64, ahead=8, begins=1, bag=16)
    assert function(spec.ctypes.data) == 64 * 256
    np.testing.assert_array_equal(rows, due[kernel.formats][0])
    np.testing.assert_array_equal(table, due[kernel.formats][1])


@pytest.mark.parametrize("kernel", each("write"))
def test_a_write_fills_whole_lines(kernel):
    room = np.full(64 * 5, 7, np.uint8)
    skip = -room.ctypes.data % 64
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(kernel.address)
    assert function(room.ctypes.data + skip, 150) == 128
    assert not room[skip:skip + 128].any()
    assert np.all(room[:skip] == 7)
    assert np.all(room[skip + 128:] == 7)


def test_every_level_has_the_float32_probe():
    levels = {k.level for k in kernels("peak")}
    assert "portable" in levels
    probes = [k for k in kernels("peak") if (k.op, k.formats) == ("fma", "float32")]
    assert {k.level for k in probes} == levels


@pytest.mark.parametrize("threads", [1, 2])
def test_probes_count_every_thread(threads):
    counts = {unit: probe() for unit, probe in peak_probes(threads).items()}
    assert "float32" in counts
    assert all(count > 0 and count % threads == 0 for count in counts.values())


def test_narrow_formats_have_at_least_the_float32_peak():
    single = peak_flop_rate("float32")
    assert single > 0
    assert all(peak_flop_rate(name) >= single for name in ("float16", "bfloat16", "f143"))
    assert peak_flop_rate("float32") == single


@pytest.mark.parametrize(("threads", "error"), [
    (0, InvalidArgumentError), (-1, InvalidArgumentError), (1.5, InvalidTypeError),
])  # fmt: skip
def test_bad_threads(threads, error):
    with pytest.raises(error, match="threads"):
        peak_flop_rate("float32", threads)


@pytest.mark.parametrize(("words", "named"), [(("--n", "8"), "--n: got 8"), (("--block", "2,4"), "--block: got 2,4")])
def test_the_limits_benchmark_refuses_what_it_has_no_loop_for(words, named):
    script = Path(__file__).parents[2] / "bench" / "bench_limits.py"
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert named in done.stderr
