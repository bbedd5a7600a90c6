"""Statistics of what is drawn. Seeds are fixed, so a test passes always or never.

Every p-value is held against 1e-6; the file has fewer than 200 of them, so a sound generator with fresh seeds would
fail it once in 5,000 times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from poplibs_py import poprand
from poplibs_py.formats import BF16, FORMATS, FP16
from poplibs_py.formats.reference import encode
from poplibs_py.poprand import hardware
from poplibs_py.poprand._workers import interleaved
from poplibs_py.poprand.arguments import next_below
from poplibs_py.target import Target

FALSE_ALARM = 1e-6
N = 1 << 19
single = np.float32


def fair(p: float) -> None:
    """Fail on a p-value that chance gives once in a million times."""
    assert p > FALSE_ALARM, p


def flat(counts: np.ndarray[Any, Any], expected: np.ndarray[Any, Any] | None = None) -> None:
    fair(float(stats.chisquare(counts, expected).pvalue))


CONTINUOUS = {
    "uniform": (lambda **k: poprand.uniform(N, -2, 3, **k), stats.uniform(-2, 5)),
    "normal": (lambda **k: poprand.normal(N, 1, 2, **k), stats.norm(1, 2)),
    "truncated": (lambda **k: poprand.truncated_normal(N, alpha=1.5, **k), stats.truncnorm(-1.5, 1.5)),
    "narrow": (lambda **k: poprand.truncated_normal(N, alpha=0.1, **k), stats.truncnorm(-0.1, 0.1)),
    "exponential": (lambda **k: poprand.exponential(N, 3, **k), stats.expon(scale=3)),
    "gumbel": (lambda **k: poprand.gumbel(N, 1, 2, **k), stats.gumbel_r(1, 2)),
    "log_uniform": (lambda **k: poprand.log_uniform(N, 0.01, 100, **k), stats.loguniform(0.01, 100)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("seed", [1, (2, 3)])
def test_kolmogorov_smirnov(name: str, seed: Any) -> None:
    draw, law = CONTINUOUS[name]
    fair(float(stats.kstest(draw(seed=seed).astype(np.float64), law.cdf).pvalue))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_moments(name: str) -> None:
    draw, law = CONTINUOUS[name]
    x = draw(seed=77).astype(np.float64)
    mean, variance, _, excess = (float(m) for m in law.stats("mvsk"))
    fair(2 * stats.norm.sf(abs(x.mean() - mean) / math.sqrt(variance / N)))
    spread = variance * math.sqrt((excess + 2) / N)
    fair(2 * stats.norm.sf(abs(((x - mean) ** 2).mean() - variance) / spread))


def test_tails_of_the_normal() -> None:
    x = np.abs(poprand.normal(1 << 22, seed=5))
    for z in (3.0, 3.5, 4.0, 4.5):
        fair(float(stats.binomtest(int((x > z).sum()), x.size, 2 * stats.norm.sf(z)).pvalue))


@pytest.mark.parametrize("size", [2, 3, 7, 100, 1000])
@pytest.mark.parametrize("stream", ["counter", "ipu"])
def test_integers(size: int, stream: Any) -> None:
    flat(np.bincount(poprand.uniform(N, 0, size - 1, dtype=np.int32, seed=3, stream=stream), minlength=size))


def test_large_integers_are_exactly_uniform() -> None:
    """A range of 3/4 of 2**32: PopLibs' product would be fine here too, 32-bit division would favour a third."""
    x = poprand.uniform(N, -(1 << 31), (1 << 30) - 1, dtype=np.int32, seed=4).astype(np.int64)
    flat(np.bincount((x + (1 << 31)) >> 26, minlength=48))
    flat(np.bincount(x & 63, minlength=64))


@pytest.mark.parametrize("prob", [2.0**-20, 0.001, 0.3, 0.5, 0.999])
def test_bernoulli(prob: float) -> None:
    ones = int(poprand.bernoulli(1 << 22, prob, dtype=np.int32, seed=6).sum())
    fair(float(stats.binomtest(ones, 1 << 22, prob).pvalue))
    if prob >= 0.001:
        ones = int(poprand.bernoulli(N, prob, seed=6, stream="ipu").sum())
        fair(float(stats.binomtest(ones, N, int(prob * 65536) / 65536).pvalue))


def test_categorical() -> None:
    weights = np.array([1, 5, 0.5, 3, 10])
    flat(np.bincount(poprand.categorical(N, weights, seed=2), minlength=5), weights / weights.sum() * N)


def test_permutations_are_equally_likely() -> None:
    codes = [tuple(poprand.permutation(4, seed=9, seed_modifier=m)) for m in range(6000)]
    _, counts = np.unique(codes, axis=0, return_counts=True)
    assert len(counts) == 24
    flat(counts)


def test_modelled_gaussian() -> None:
    """Twelve sums of 0 .. 31: variance 12 (32^2 - 1) / 12 / 32^2."""
    z = poprand.normal(N, seed=1, stream="ipu").astype(np.float64)
    fields = np.ones(1)
    for _ in range(12):
        fields = np.convolve(fields, np.full(32, 1 / 32))
    values, counts = np.unique(z * 32 + 186, return_counts=True)
    expected = fields[values.astype(int)] * N
    wide = expected > 5
    fair(float(stats.chisquare(np.append(counts[wide], N - counts[wide].sum()),
                               np.append(expected[wide], N - expected[wide].sum())).pvalue))
    assert abs(z.var() - 1023 / 1024) < 6 * math.sqrt(2 / N)


def test_modelled_truncation_leaves_one_in_ten_thousand_at_the_mean() -> None:
    alpha = 0.5
    z = poprand.truncated_normal(N, alpha=alpha, seed=2, stream="ipu")
    k = np.arange(-16, 17)
    fields = np.ones(1)
    for _ in range(12):
        fields = np.convolve(fields, np.full(32, 1 / 32))
    inside = fields[186 + k]
    left = (1 - inside.sum()) ** (hardware.redraws(alpha) + 1)
    expected = inside / inside.sum() * (1 - left) * N
    expected[16] += left * N
    flat(np.bincount((z * 32).astype(int) + 16, minlength=33), expected)


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_uniform_of_every_format(form: Any) -> None:
    x = poprand.uniform(N, dtype=form, seed=8).astype(np.float64)
    mean = 0.5 - 2.0**-25 if form.bits == 32 else expected_mean(form)
    fair(2 * stats.norm.sf(abs(x.mean() - mean) / math.sqrt(1 / 12 / N)))


def expected_mean(form: Any) -> float:
    """Mean of all 65,536 draws, rounded as documented."""
    draws = np.minimum(np.arange(1 << 16) / 65536, next_below(1.0, form.dtype))
    rounding = "toward-zero" if form in (FP16, BF16) else "nearest-even"
    return float(encode(draws, form, rounding=rounding).view(form.dtype).astype(np.float64).mean())


def bits_are_fair(words: np.ndarray[Any, Any]) -> None:
    """Each bit; each pair of neighbouring bits; bytes; ones in successive words."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8), axis=1)
    n = len(bits)
    fair(float(stats.chi2.sf((((bits.sum(axis=0) - n / 2) ** 2) / (n / 4)).sum(), 64)))
    equal = (bits[:, 1:] == bits[:, :-1]).sum(axis=0)
    fair(float(stats.chi2.sf((((equal - n / 2) ** 2) / (n / 4)).sum(), 63)))
    flat(np.bincount(np.ascontiguousarray(words).view(np.uint8).reshape(-1), minlength=256))
    ones = bits.sum(axis=1).astype(np.float64) - 32
    correlation = (ones[1:] * ones[:-1]).sum() / 16 / math.sqrt(n - 1)
    fair(2 * stats.norm.sf(abs(correlation)))


def test_bits_of_the_counter_stream() -> None:
    bits_are_fair(poprand.bits(1 << 17, dtype=np.uint64, seed=1))


def test_bits_of_one_generator() -> None:
    bits_are_fair(poprand.Xoroshiro128aox(1).random_raw(1 << 17))


@pytest.mark.parametrize("seed", [0, 42])
def test_all_workers_of_a_gc200_interleaved(seed: int) -> None:
    """1,472 x 6 streams, a word of each in turn: neighbours in the row are neighbouring workers and tiles."""
    words = interleaved(hardware.worker_states(Target.gc200(), seed, 0), 16).reshape(16, -1)
    bits_are_fair(words.reshape(-1))


def test_workers_states_differ_by_the_same_bits_on_every_tile() -> None:
    """A weakness of PopLibs' seeding that the docs name: the step is linear, so warming up keeps differences fixed."""
    states = hardware.worker_states(Target.gc200(), 42, 0)
    difference = states[:, 1] ^ states[:, 0]
    assert (difference == difference[0]).all()
    words = interleaved(states, 16)
    ones = np.unpackbits((words[:, :, 1] ^ words[:, :, 0]).view(np.uint8)).mean()
    assert abs(ones - 0.5) > 6 * math.sqrt(0.25 / (16 * 1472 * 64))


def test_neighbouring_seeds_and_modifiers_are_unrelated() -> None:
    first = np.stack([poprand.bits(512, dtype=np.uint64, seed=s) for s in range(128)])
    bits_are_fair((first[1:] ^ first[:-1]).reshape(-1))
    second = np.stack([poprand.bits(512, dtype=np.uint64, seed=1, seed_modifier=m) for m in range(128)])
    bits_are_fair((second[1:] ^ second[:-1]).reshape(-1))


@pytest.mark.nightly
def test_dieharder_or_practrand() -> None:
    """One pass of the installed battery over the counter stream; its report is in the docs."""
    import shutil
    import subprocess
    import sys

    if not (shutil.which("RNG_test") or shutil.which("dieharder")):
        pytest.skip("neither PractRand nor dieharder is installed")
    code = "import sys; from poplibs_py.cli import main; sys.exit(main(['randtest', '--bytes', '1GB', '--test', '0']))"
    report = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "FAIL" not in report, report
