"""Plans: the memory bound and its ladder, threads, the do-plan-compile triple, and what repeats bit for bit."""

import contextlib
import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.config import settings, thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, MemoryLimitWarning
from poplibs_py.formats import F143, FORMATS, QuarterArray
from poplibs_py.kernels import available_levels
from poplibs_py.poplin.gemm.options import GemmOptions
from poplibs_py.popsparse import static
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.target import Target
from poplibs_py.testing import assert_same_bits, check, random_operand

ANY = st.sampled_from(FORMATS)
SEEDS = st.integers(0, 2**16)
SHARES = st.sampled_from([0.6, 0.2, 0.05, 0.01, 0.003])


@given(
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(1, 1500),
    ANY,
    ANY,
    ANY,
    SHARES,
    st.booleans(),
    st.sampled_from(["float", "half"]),
    st.integers(1, 3),
    SEEDS,
)
def test_temporaries_never_exceed_the_bound(
    m, n, k, a_format, b_format, out_format, share, biased, partials, tiles, seed
):
    a, b = random_operand((m, k), a_format, seed), random_operand((n, k), b_format, seed).T
    bias = random_operand((n,), "float16", seed) if biased else None
    target = Target.host(tiles)
    memory_peak(reset=True)
    before = memory_in_use()
    try:
        poplin.matmul(
            a, b, out_dtype=out_format, bias=bias, available_memory_proportion=share, target=target,
            partials_type=partials, strict_memory=True,
        )  # fmt: skip
    except MemoryLimitError:
        assert share * target.bytes_per_tile < 1 << 17  # 128 KiB are enough for any product
    assert memory_peak() - before <= share * target.bytes_per_tile * target.tiles
    assert memory_in_use() == before


@given(
    st.sampled_from(["prepared", "grouped", "accumulated", "scaled", "turned"]),
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(1, 1500),
    ANY,
    ANY,
    ANY,
    SHARES,
    st.integers(1, 3),
    SEEDS,
)
def test_every_form_of_a_product_keeps_to_the_bound(form, m, n, k, a_format, b_format, out_format, share, tiles, seed):
    target = Target.host(tiles)
    how = {"available_memory_proportion": share, "target": target, "strict_memory": True}
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed)
    w = None
    memory_peak(reset=True)
    before = memory_in_use()
    with contextlib.suppress(MemoryLimitError):  # tight bounds: nothing has run, so nothing was taken
        if form == "prepared":
            w = poplin.prepare(b, a_dtype=a_format, **how)
            poplin.matmul(a, w, out_dtype=out_format, **how)
        elif form == "grouped":
            some = np.stack([a[:, : k // 3 + 1]] * 3), np.stack([b[: k // 3 + 1]] * 3)
            poplin.matmul_grouped(*some, out_dtype=out_format, **how)
        elif form == "accumulated":
            poplin.matmul_acc(np.zeros((m, n), out_format.dtype), a, b, beta=0.5, activation="gelu", **how)
        elif form == "scaled":
            rows = QuarterArray.from_array(a.astype(np.float32), "f143", "auto", (1, -1))
            poplin.matmul(rows, b, out_dtype=out_format, **how)
        else:
            poplin.matmul(np.asfortranarray(a), np.asfortranarray(b), out_dtype=out_format, **how)
    assert memory_peak() - before <= share * target.bytes_per_tile * target.tiles
    assert memory_in_use() == before


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 700), ANY, ANY, SHARES, SEEDS)
def test_tight_plans_are_right_too(m, n, k, a_format, b_format, share, seed):
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        check("matmul", a, b, out_dtype="bfloat16", available_memory_proportion=share)


def test_what_was_planned_is_what_is_taken():
    plan = poplin.plan_matmul(
        (300, 900), (900, 500), dtype="float16", out_dtype="f143", available_memory_proportion=0.05
    )
    run = poplin.compile_matmul(plan)
    a, b = random_operand((300, 900), "float16", 0), random_operand((900, 500), "float16", 1)
    memory_peak(reset=True)
    before = memory_in_use()
    run(a, b)
    assert memory_peak() - before == plan.temporary_bytes


def test_a_bound_that_no_plan_meets_is_raised_with_a_warning_or_refused():
    call = {"dtype": "float16", "available_memory_proportion": 1e-7}
    with pytest.warns(MemoryLimitWarning, match="available_memory_proportion=1e-07 leaves") as caught:
        plan = poplin.plan_matmul((64, 300), (300, 64), **call)
    raised = int(str(caught[0].message).rpartition("the limit was raised to ")[2].replace(",", ""))
    assert raised // 2 < plan.temporary_bytes <= raised  # of all threads
    assert plan.memory_limit < plan.scratch_bytes <= 2 * plan.target.bytes_per_tile
    with pytest.raises(MemoryLimitError, match="the least that any plan takes is"):
        poplin.plan_matmul((64, 300), (300, 64), strict_memory=True, **call)


def test_no_proportion_no_bound():
    assert poplin.plan_matmul((64, 64), (64, 64), dtype="f143", available_memory_proportion=0).memory_limit is None


def test_more_memory_is_never_refused():
    sizes = [
        poplin.plan_matmul((500, 2000), (2000, 900), dtype="float16", available_memory_proportion=x).scratch_bytes
        for x in (0.1, 0.2, 0.4, 0.6)
    ]
    assert sizes == sorted(sizes)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 600), ANY, SEEDS)
def test_compiled_plans_do_what_matmul_does(m, n, k, fmt, seed):
    a, b = random_operand((m, k), fmt, seed), random_operand((k, n), fmt, seed + 1)
    run = poplin.compile_matmul(poplin.plan_matmul(a.shape, b.shape, dtype=fmt, activation="relu"))
    assert_same_bits(run(a, b), poplin.matmul(a, b, activation="relu"))


def test_a_compiled_plan_refuses_other_arrays():
    run = poplin.compile_matmul(poplin.plan_matmul((2, 3), (3, 4)))
    with pytest.raises(ValueError, match="a: got float32 of shape"):
        run(np.ones((3, 3), np.float32), np.ones((3, 4), np.float32))
    with pytest.raises(ValueError, match="out: got format float16; allowed: the planned format, float32"):
        run(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), out=np.ones((2, 4), np.float16))
    with pytest.raises(TypeError, match="plan: got str"):
        poplin.compile_matmul("plan")


@pytest.mark.parametrize("target", [None, "gc200"])
def test_a_compiled_plan_says_that_scales_are_not_planned(target):
    x = np.ones((4, 4), np.float16)
    run = poplin.compile_matmul(poplin.plan_matmul((4, 4), (4, 4), dtype="float16", target=target))
    with pytest.raises(ValueError, match="out: got a QuarterArray with scale 3; allowed: scale 0, as planned"):
        run(x, x, out=QuarterArray(x.copy(), "float16", 3))
    codes, run = np.zeros((4, 4), np.uint8), poplin.compile_matmul(poplin.plan_matmul((4, 4), (4, 4), dtype="f143"))
    with pytest.raises(ValueError, match="a: got a QuarterArray with scale 1; allowed: scale 0, as planned"):
        run(QuarterArray(codes, "f143", 1), codes.view(F143.dtype))
    with pytest.raises(ValueError, match="b: got a QuarterArray with scales of blocks; allowed: scale 0, as planned"):
        run(codes.view(F143.dtype), QuarterArray(codes, "f143", [[1], [2], [1], [2]], (1, 4)))


def test_a_plan_explains_itself():
    text = str(poplin.plan_matmul((128, 256), (256, 512), dtype="f143", b_dtype="float16").explain())
    for word in (
        "matmul [128, 256] x [256, 512]",
        "f143 x float16 -> float16",
        "kernel",
        "blocks",
        "threads",
        "scratch",
    ):
        assert word in text


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 600), ANY, ANY, SEEDS)
def test_reproducible_bits_do_not_depend_on_threads(m, n, k, a_format, b_format, seed):
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed + 1)
    results = [poplin.matmul(a, b, reproducible=True, target=Target.host(t)) for t in (1, 2, 3, 7)]
    for other in results[1:]:
        assert_same_bits(other, results[0])


_PRINT_BITS = """
import hashlib
from poplibs_py import poplin
from poplibs_py.testing import random_operand
digest = hashlib.sha256()
for i, (m, n, k) in enumerate([(1, 1, 1), (5, 70, 33), (64, 1, 500), (33, 47, 300), (20, 130, 257)]):
    for fmt in ("float32", "float16", "bfloat16", "f143"):
        a, b = random_operand((m, k), fmt, i), random_operand((k, n), fmt, i + 9)
        for act in (None, "gelu", "silu"):
            digest.update(poplin.matmul(a, b, out_dtype="float32", reproducible=True, activation=act).tobytes())
print(digest.hexdigest())
"""


def test_reproducible_bits_do_not_depend_on_the_level():
    found = set()
    for level in available_levels():  # a cap at any other is one at the next lower
        if level.startswith("amx"):
            continue
        env = dict(os.environ, POPLIBS_MAX_ISA=level)
        found.add(
            subprocess.run(
                [sys.executable, "-c", _PRINT_BITS], env=env, capture_output=True, text=True, check=True
            ).stdout
        )
    assert len(found) == 1


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_row_s_bits_do_not_depend_on_which_rows_are_with_it(dtype, columns):
    """Few columns are sums along the depth, of four rows in step where there are so many."""
    a, b = random_operand((1003, 900), dtype, 1), random_operand((900, columns), dtype, 2)
    with thread_limit(1):
        whole = poplin.matmul(a, b)
        for first, count in ((0, 999), (1, 1002)):
            assert_same_bits(poplin.matmul(a[first:first + count], b), whole[first:first + count])
    with thread_limit(3):
        assert_same_bits(poplin.matmul(a, b), whole)


def test_many_threads_get_the_bits_that_one_gets():
    rng = np.random.default_rng(0)
    cases = []
    for i in range(12):
        m, n, k = (int(x) for x in rng.integers(1, 200, 3))
        fmt = FORMATS[i % len(FORMATS)]
        a, b = random_operand((m, k), fmt, i), random_operand((k, n), fmt, i + 50)
        cases.append((a, b, poplin.matmul(a, b, out_dtype="float32")))
    wrong = []

    def work(start):
        for i in range(60):
            a, b, wanted = cases[(start + i) % len(cases)]
            if poplin.matmul(a, b, out_dtype="float32").tobytes() != wanted.tobytes():
                wrong.append((a.shape, b.shape))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_the_thread_limit_is_honoured():
    with thread_limit(1):
        assert poplin.plan_matmul((512, 512), (512, 512)).threads == 1
    with thread_limit(3):
        assert poplin.plan_matmul((512, 512), (512, 512)).threads == 3
    assert poplin.plan_matmul((512, 512), (512, 512)).threads == settings.num_threads


def test_options_take_poplibs_spelling():
    options = {"availableMemoryProportion": 0.1, "partialsType": "half", "enableFastReduce": True}
    plan = poplin.plan_matmul((8, 8), (8, 8), dtype="float16", options=options)
    assert plan.options == GemmOptions(available_memory_proportion=0.1, partials_type="half")


def test_warnings_point_to_the_caller():
    a = np.ones((300, 300), np.float16)
    for call in (lambda: poplin.matmul(a, a, available_memory_proportion=1e-7),
                 lambda: poplin.plan_matmul((300, 300), (300, 300), target="gc200", available_memory_proportion=1e-4)):
        with pytest.warns(MemoryLimitWarning) as caught:
            call()
        assert caught[0].filename == __file__


def test_plans_and_programs_say_what_they_are():
    plan = poplin.plan_matmul((2, 3), (3, 4), dtype="float16")
    assert repr(poplin.compile_matmul(plan)) == "<compiled poplin.matmul: [2, 3] x [3, 4] float16 x float16>"
    modelled = poplin.compile_matmul(poplin.plan_matmul((2, 3), (3, 4), dtype="float16", target="gc200"))
    assert repr(modelled) == repr(poplin.compile_matmul(plan))
    assert "rows=3, columns=4" in repr(static.prepare_dense(np.ones((3, 4), np.float32)))


@pytest.mark.parametrize(("name", "operands"), [
    ("matmul_grouped", 2), ("matmul_acc", 3), ("matmul_grouped_acc", 3), ("prepare", 1), ("plan_matmul", 2),
])
def test_an_unknown_keyword_is_refused_in_the_name_of_what_was_called(name, operands):
    x = (3, 3) if name == "plan_matmul" else np.ones((3, 3) if name == "prepare" else (2, 3, 3), np.float32)
    with pytest.raises(InvalidTypeError, match=rf"^{name}\(\): got unknown keyword 'nonsense'; .*'reproducible"):
        getattr(poplin, name)(*[x] * operands, nonsense=1)


def test_an_unknown_keyword_of_a_plan_is_told_all_that_are_known():
    allowed = r"unknown keyword 'a_dtype' \(did you mean 'b_dtype'\?\); allowed: 'dtype', 'b_dtype', .*, 'half_passes"
    with pytest.raises(InvalidTypeError, match=allowed):
        poplin.plan_matmul((3, 3), (3, 3), a_dtype="half")


@pytest.mark.parametrize("target", [None, "gc200"])
@pytest.mark.parametrize("shapes", [((5, 4, 3), (3, 2)), ((4, 3), (5, 3, 2)), ((5, 4, 3), (5, 3, 2))])
def test_a_matrix_that_a_batch_shares_is_planned_as_it_is_multiplied(shapes, target):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    run = poplin.compile_matmul(poplin.plan_matmul(*shapes, dtype="float16", target=target))
    for _ in range(2):
        assert np.array_equal(run(a, b), poplin.matmul(a, b, target=target))
    if b.ndim == 2 and target is None:
        with pytest.raises(InvalidArgumentError, match=r"^b: got .* shape \(5, 3, 2\); allowed: .* shape \(3, 2\)"):
            run(a, np.broadcast_to(b, (5, 3, 2)))
    with pytest.raises(InvalidArgumentError, match=r"^b_shape: got \(6, 3, 2\); allowed: .* or none"):
        poplin.plan_matmul((5, 4, 3), (6, 3, 2), dtype="float16", target=target)


@pytest.mark.parametrize(("a", "b"), [
    ((3, 2, 0), (0, 4)), ((3, 2, 5), (5, 0)), ((0, 5), (3, 5, 4)), ((3, 0, 5), (5, 4))])
def test_a_plan_takes_what_it_was_made_for_without_elements(a, b):
    run = poplin.compile_matmul(poplin.plan_matmul(a, b))
    x, y = np.ones(a, np.float32), np.ones(b, np.float32)
    assert run(x, y).tobytes() == poplin.matmul(x, y).tobytes()
    assert run(x, y).shape == (3, a[-2], b[-1])
