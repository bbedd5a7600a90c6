"""Every function of simd/math.h at every level: its bound, C99's special values, equal bits, tails, memory borders."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import worst_errors

from poplibs_py.kernels import Kernel

KERNELS = worst_errors.functions()
NAN, INF = math.nan, math.inf
ENDS = {  # at -inf, -0, +0, +inf
    "exp": (0.0, 1.0, 1.0, INF),
    "exp2": (0.0, 1.0, 1.0, INF),
    "expm1": (-1.0, -0.0, 0.0, INF),
    "log": (NAN, -INF, -INF, INF),
    "log2": (NAN, -INF, -INF, INF),
    "log1p": (NAN, -0.0, 0.0, INF),
    "tanh": (-1.0, -0.0, 0.0, 1.0),
    "erf": (-1.0, -0.0, 0.0, 1.0),
    "sigmoid": (0.0, 0.5, 0.5, 1.0),
    "silu": (-0.0, -0.0, 0.0, INF),
    "gelu_tanh": (-0.0, -0.0, 0.0, INF),
    "gelu_erf": (-0.0, -0.0, 0.0, INF),
    "sqrt": (NAN, -0.0, 0.0, INF),
    "rsqrt": (NAN, -INF, INF, 0.0),
    "reciprocal": (-0.0, -INF, INF, 0.0),
    "sin": (NAN, -0.0, 0.0, NAN),
    "cos": (NAN, 1.0, 1.0, NAN),
    "tan": (NAN, -0.0, 0.0, NAN),
    "asin": (NAN, -0.0, 0.0, NAN),
    "acos": (NAN, math.pi / 2, math.pi / 2, NAN),
    "atan": (-math.pi / 2, -0.0, 0.0, math.pi / 2),
    "sinh": (-INF, -0.0, 0.0, INF),
    "cosh": (INF, 1.0, 1.0, INF),
    "cbrt": (-INF, -0.0, 0.0, INF),
}
EXACT = {  # where the result is a number of FP32 and must be met
    "exp2": [(float(n), 2.0**n) for n in range(-149, 128)],
    "log2": [(2.0**n, float(n)) for n in range(-149, 128)],
    "sqrt": [(float(n * n), float(n)) for n in range(1, 4096)],
    "log": [(1.0, 0.0), (-1.0, NAN)],
    "log1p": [(-1.0, -INF), (-1.5, NAN)],
    "exp": [(89.0, INF), (-104.0, 0.0)],
    "tanh": [(10.0, 1.0), (1e-30, 1e-30)],
    "erf": [(4.0, 1.0)],
    "asin": [(1.0, math.pi / 2), (-1.0, -math.pi / 2), (1.0000001, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (-1.0000001, NAN)],
    "cosh": [(90.0, INF)],
    "cbrt": [(float(n**3), float(n)) for n in range(-256, 257)],
}
CORRECTLY_ROUNDED = {"sqrt", "reciprocal"}


def named(kernel: Kernel) -> str:
    return f"{kernel.level}-{kernel.op}"


def run(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    worst_errors.apply(kernel, x, y)
    return y


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal numbers with equal signs, and NaN where NaN is wanted."""
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def arguments(count: int) -> np.ndarray:
    """Codes evenly over all, then those about the places where bodies change their ways."""
    codes = (np.arange(count, dtype=np.uint64) * (2**32 // count) + 1).astype(np.uint32).view(np.float32)
    turns = np.float32([1 / 15, 2 / 13, 0.234, 0.469, 0.5, 1, 2, 3.75, 4, 9.2, 10.4, 14.5, 60, 87.33655, 88.72284, 89,
                        90, 103.97, 104, 105, 126, 128, 149, 150, 152, 200, 1000, 2.0**28, 2.0**-126, 2.0**-149,
                        0.70710678, 1.41421356, 3.4028235e38])
    near = (turns.view(np.int32)[:, None] + np.arange(-40, 41, dtype=np.int32)).ravel().view(np.float32)
    return np.concatenate([codes, near, -near])


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory):
    if not shutil.which("cc"):
        pytest.skip("the harness wants a C compiler")
    return worst_errors.compiled(tmp_path_factory.mktemp("harness"))


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_special_values(kernel: Kernel):
    same(run(kernel, np.float32([-INF, -0.0, 0.0, INF])), np.float32(ENDS[kernel.op]))
    assert np.isnan(run(kernel, np.float32([NAN, -NAN] * 9))).all()
    for x, want in EXACT.get(kernel.op, []):
        same(run(kernel, np.float32([x])), np.float32([want]))


@pytest.mark.parametrize("op", sorted({kernel.op for kernel in KERNELS}))
def test_every_level_gives_the_same_bits(op: str):
    x = arguments(1 << 16)
    first, *rest = [run(kernel, x) for kernel in KERNELS if kernel.op == op]
    for other in rest:
        same(other, first)


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_tails_touch_nothing_else_and_results_do_not_depend_on_the_place(kernel: Kernel):
    x = np.linspace(0.01, 3, 71, dtype=np.float32)
    whole = run(kernel, x)
    for n in range(71):
        room = np.full(71 + 2, 7.0, np.float32)
        room[1:n + 1] = x[:n]
        worst_errors.apply(kernel, room[1:n + 1], room[1:n + 1])
        same(room[1:n + 1], whole[:n])
        assert room[0] == 7
        assert (room[n + 1:] == 7).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_a_result_does_not_depend_on_its_neighbours(kernel: Kernel):
    """Rare arguments take their vector another way, in which the others must fare the same."""
    x = arguments(1 << 12)
    mixed = np.random.default_rng(1).permutation(x.size)
    same(run(kernel, x[mixed]), run(kernel, x)[mixed])


@pytest.mark.parametrize("op", sorted({kernel.op for kernel in KERNELS}))
def test_a_million_arguments_are_within_one_ulp(harness, op: str):
    found = worst_errors.worst(harness, worst_errors.highest()[op], step=4093, offset=17)
    assert found.doubt < 2**-16, "the reference is not to be trusted"
    assert not found.wrong, f"wrong in kind at {found.wrong_at!r}"
    assert found.error <= (0.5 if op in CORRECTLY_ROUNDED else 1), f"{found.error} ulp at {found.at!r}"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("op", sorted({kernel.op for kernel in KERNELS}))
def test_results_of_16_bits_are_rounded_once_but_for_ties(harness, op: str, dtype: type):
    """FP32 errs by at most 1 ulp, which is 2^-13 (2^-16) of an ulp of the narrow type."""
    narrow = 2.0 ** (ml_dtypes.finfo(dtype).nmant - 23)
    assert worst_errors.narrow_worst(harness, worst_errors.highest()[op], dtype) <= 0.5 + narrow


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("op", sorted({kernel.op for kernel in KERNELS}))
def test_all_arguments_are_within_one_ulp(harness, op: str):
    found = worst_errors.worst(harness, worst_errors.highest()[op], step=1)
    assert not found.wrong, f"wrong in kind at {found.wrong_at!r}"
    assert found.error <= (0.5 if op in CORRECTLY_ROUNDED else 1), f"{found.error} ulp at {found.at!r}"


PAIRS_WORST = {"pow": 0.7, "atan2": 0.51}
"""Greatest errors, in ulp, as docs/reference/math.md has them."""

HARD = np.float32([0, -0.0, 1, -1, INF, -INF, NAN, 0.5, -0.5, 2, -2, 3, -3, 2.5, -2.5, 1 / 3, 2**22 + 0.5, 2**23 - 1,
                   -(2**23) - 1, 2**24 - 1, 2**24, 1e30, -1e30, 1e-40, -1e-40, 1.1754944e-38, 3.4028235e38, 0.99999994,
                   1.0000001, -1.0000001, 88.7, 126.5, -149.5])  # fmt: skip
"""Arguments of two-argument functions: edges, whole numbers odd and even, and what is next to one."""


def slices(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs: hard ones with each other and with all arguments, and powers that are nearly too large or too small."""
    rng, all_ = np.random.default_rng(2), arguments(count)
    made = [(HARD[:, None], HARD), *((all_, one) for one in HARD), *((one, all_) for one in HARD)]
    for base in (np.exp(rng.uniform(-20, 20, count)), 1 + rng.uniform(-1e-3, 1e-3, count)):
        x = base.astype(np.float32)
        with np.errstate(divide="ignore"):
            made.append((x, (rng.uniform(-104, 89, count) / np.log(x.astype(np.float64))).astype(np.float32)))
    return made


@pytest.mark.parametrize("op", sorted(worst_errors.PAIRS))
def test_functions_of_two_arguments(harness, op: str):
    """Within one ulp, kinds and signs as annex F has them, the same bits at every level."""
    of_levels = [kernel for kernel in worst_errors.pairs() if kernel.op == op]
    assert of_levels
    for x, y in slices(1 << 12):
        results = []
        for kernel in of_levels:
            found, z = worst_errors.pair_worst(harness, kernel, x, y)
            a, b = (side.ravel() for side in np.broadcast_arrays(x, y))
            assert found.doubt < 2**-16, "the reference is not to be trusted"
            assert not found.wrong, f"wrong in kind at {a[int(found.wrong_at)]!r}, {b[int(found.wrong_at)]!r}"
            assert found.error <= PAIRS_WORST[op], f"{found.error} ulp at {a[int(found.at)]!r}, {b[int(found.at)]!r}"
            results.append(z)
        for other in results[1:]:
            same(other, results[0])


def documented() -> dict[str, float]:
    """The table of docs/reference/math.md."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "math.md"
    errors = page.read_text().partition("## Worst errors")[2].partition("## Speed")[0]
    rows = [line.split("|")[1:-1] for line in errors.splitlines() if line.startswith("| ")]
    return {row[0].strip(): float(row[1]) for row in rows if row[0].strip() in ENDS}


def test_the_documented_errors_name_every_function_and_keep_the_bound():
    errors = documented()
    assert set(errors) == {kernel.op for kernel in KERNELS} == worst_errors.FUNCTIONS
    assert max(errors.values()) <= 1
