"""The peak probes do the work that they say they do."""

from __future__ import annotations

import ctypes
import math

import pytest

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.kernels import kernels
from poplibs_py.kernels.peak import peak_flop_rate, peak_probes


@pytest.mark.parametrize("kernel", kernels("peak"), ids=lambda k: f"{k.name}-{k.level}")
def test_a_probe_counts_its_block_once_a_round(kernel):
    probe = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address)
    assert probe(1000) == 2 * 1000 * math.prod(kernel.block)
    assert probe(0) == 0


def test_every_level_has_the_float32_probe():
    levels = {k.level for k in kernels("peak")}
    assert "portable" in levels
    assert all(any(k.level == level and k.formats == "float32" for k in kernels("peak")) for level in levels)


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


@pytest.mark.parametrize("threads", [0, -1, 1.5])
def test_bad_threads(threads):
    with pytest.raises(InvalidArgumentError, match="threads"):
        peak_flop_rate("float32", threads)
