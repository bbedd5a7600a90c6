"""One product, asked for in every way there is: exact sums have one answer, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawn_products import EXTENTS, SEEDS, Product, exact_products
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from poplibs_py import poplin, profile
from poplibs_py.config import thread_limit
from poplibs_py.formats import FORMATS, FP32, QuarterArray, format_of
from poplibs_py.target import Target
from poplibs_py.testing import assert_same_bits, check_exact, exact_operands
from poplibs_py.testing.strategies import LAYOUTS, relaid

FEWER = settings.default.max_examples // 2
"""Examples of each of several parameters."""

pytestmark = pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")


def matmul(product: Product, a: Any = None, b: Any = None, **more: Any) -> Any:
    """The product by `poplin.matmul`, with operands that stand for its own and further keywords."""
    how = {"out_dtype": product.out_format, **product.keywords, **more}
    return poplin.matmul(product.a if a is None else a, product.b if b is None else b, **how)


def again(product: Product) -> Any:
    made = [matmul(product) for _ in range(3)]
    for one in made[1:]:
        assert_same_bits(one, made[0])
        assert not np.may_share_memory(one, made[0])
    return made[-1]


def compiled(product: Product) -> Any:
    epilogue = dict(product.keywords)
    bias = {"bias": epilogue.pop("bias")} if "bias" in epilogue else {}
    if bias:
        epilogue["bias_dtype"] = bias["bias"].dtype
    plan = poplin.plan_matmul(product.a.shape, product.b.shape, **product.dtypes, **epilogue)
    run = poplin.compile_matmul(plan)
    a, b = (np.ascontiguousarray(x) for x in (product.a, product.b))
    first = run(a, b, **bias)
    assert_same_bits(run(a, b, **bias), first)
    out = np.zeros(product.shape, product.out_format.dtype)
    assert run(a, b, out=out, **bias) is out
    assert_same_bits(out, first)
    return first


def grouped(product: Product) -> Any:
    keywords = dict(product.keywords)
    if np.ndim(keywords.get("bias")) > 1:
        keywords["bias"] = keywords["bias"][None]
    return poplin.matmul_grouped(product.a[None], product.b[None], out_dtype=product.out_format, **keywords)[0]


def accumulated(product: Product) -> Any:
    c = np.full(product.shape, np.nan).astype(product.out_format.dtype)
    made = poplin.matmul_acc(c, product.a, product.b, beta=0.0, **product.keywords)
    assert made is c
    return c


def transposed(product: Product) -> Any:
    keywords = dict(product.keywords)
    if "bias" in keywords:
        bias = keywords["bias"]
        keywords["bias"] = bias[:, None] if bias.ndim == 1 else bias.T
    return poplin.matmul(product.b.T, product.a.T, out_dtype=product.out_format, **keywords).T


def as_codes(product: Product) -> Any:
    return matmul(product, *(x if format_of(x) is FP32 else codes(x) for x in (product.a, product.b)))


def codes(array: Any) -> QuarterArray:
    form = format_of(array)
    return QuarterArray(array.view(form.code_dtype), form, 0)


def into_codes(product: Product) -> Any:
    form = product.out_format
    if form is FP32:  # has no codes: its arrays are NumPy's
        return matmul(product)
    out = codes(np.zeros(product.shape, form.dtype))
    assert matmul(product, out_dtype=None, out=out) is out
    return out.codes.view(form.dtype)


def limited(product: Product, threads: int) -> Any:
    with thread_limit(threads):
        return matmul(product)


def listened(product: Product) -> Any:
    with profile() as report:
        made = matmul(product)
    assert len(report.runs) == 1
    return made


def spelled(product: Product) -> Any:
    return matmul(product, options={"partialsType": "float", "availableMemoryProportion": "0.5"})


WAYS: dict[str, Callable[[Product], Any]] = {
    "again": again,
    "grouped": grouped,
    "accumulated": accumulated,
    "transposed": transposed,
    "of codes": as_codes,
    "into codes": into_codes,
    "of a batch": lambda p: matmul(p, p.a[None, None], p.b[None])[0, 0],
    "of lists": lambda p: matmul(p, *(x.tolist() if x.dtype == np.float32 and x.size else x for x in (p.a, p.b))),
    "prepared left": lambda p: matmul(p, a=poplin.prepare(p.a, side="left", b_dtype=p.b.dtype)),
    "prepared right": lambda p: matmul(p, b=poplin.prepare(p.b, a_dtype=p.a.dtype)),
    "on one thread": lambda p: limited(p, 1),
    "on three threads": lambda p: limited(p, 3),
    "on a target of five": lambda p: matmul(p, target=Target.host(5)),
    "with PopLibs' options": spelled,
    "with little memory": lambda p: matmul(p, available_memory_proportion=0.001),
    "without a bound": lambda p: matmul(p, available_memory_proportion=0),
    "in one order": lambda p: matmul(p, reproducible=True),
    "listened to": listened,
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=FEWER)
@given(exact_products())
def test_every_way_gives_the_one_answer(way: str, product: Product) -> None:
    assert_same_bits(WAYS[way](product), product.answer())


@given(exact_products(plain_bias=True))
def test_a_compiled_product_gives_the_one_answer(product: Product) -> None:
    assert_same_bits(compiled(product), product.answer())


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("read_only", "broadcast")])
@pytest.mark.parametrize("turned", [False, True])
@settings(max_examples=FEWER)
@given(product=exact_products())
def test_an_output_may_lie_anyhow(layout: str, turned: bool, product: Product) -> None:
    due = product.answer()
    shape = product.shape[::-1] if turned else product.shape
    out = relaid(np.zeros(shape, product.out_format.dtype), layout)
    out = out.T if turned else out
    for _ in range(2):
        assert matmul(product, out_dtype=None, out=out) is out
        assert_same_bits(out, due)
        out[...] = 0
    whole = out
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    assert whole.tobytes() == bytes(whole.nbytes), "nothing is written beside the elements"


@pytest.mark.parametrize("over", ["a", "b", "bias"])
@given(product=exact_products(), data=st.data())
def test_an_output_over_an_operand_is_as_if_it_were_not(over: str, product: Product, data: st.DataObject) -> None:
    """In the memory of an operand, from any element of it on, plain or turned."""
    operands = {"a": product.a, "b": product.b, **product.keywords}
    assume(over in operands)
    due = product.answer()
    under, dtype = operands[over], product.out_format.dtype
    step = max(dtype.itemsize, under.dtype.itemsize)
    size = int(np.prod(product.shape)) * dtype.itemsize
    memory = np.zeros(under.nbytes + size + step, np.uint8)
    operands[over] = np.ndarray(under.shape, under.dtype, memory, 0)
    operands[over][...] = under
    start = step * data.draw(st.integers(0, under.nbytes // step))
    shape = product.shape[::-1] if data.draw(st.booleans()) else product.shape
    out = np.ndarray(shape, dtype, memory, start)
    out = out if shape == product.shape else out.T
    assert poplin.matmul(**operands, out=out) is out
    assert_same_bits(out, due)


@given(EXTENTS, st.sampled_from([-0.5, 0.0, 1.0]), SEEDS)
def test_an_accumulator_may_be_both_operands(n: int, beta: float, seed: int) -> None:
    """Their numbers before the call count."""
    c = np.random.default_rng(seed).integers(-8, 9, (n, n)).astype(np.float32)
    due = beta * c + c @ c
    assert poplin.matmul_acc(c, c, c, beta=beta) is c
    assert_same_bits(c, due.astype(np.float32))


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), EXTENTS, st.integers(1, 40), EXTENTS,
       st.sampled_from(FORMATS), st.sampled_from(FORMATS), st.sampled_from(["", "n", "1n", "m1", "b1n", "bm1"]),
       st.booleans(), SEEDS)
def test_batches_are_products_one_by_one(fronts: Any, m: int, k: int, n: int, a_format: Any, b_format: Any, kind: str,
                                         shared: bool, seed: int) -> None:
    """Batch axes broadcast, with strides of zero too, and so does a bias."""
    a_front, b_front = fronts.input_shapes
    made = exact_operands((*a_front, m, k), (*b_front, k, n), a_format, b_format, seed=seed)
    a = np.broadcast_to(made.a[..., :1, :], made.a.shape) if shared and m else made.a
    b, front, keywords = made.b, fronts.result_shape, {}
    extent = {"": None, "n": (n,), "1n": (1, n), "m1": (m, 1), "b1n": (*front, 1, n), "bm1": (*front, m, 1)}[kind]
    if extent is not None:
        keywords["bias"] = made.addend(extent, FP32, seed)
    got = poplin.matmul(a, b, out_dtype="float32", **keywords)
    assert got.shape == (*front, m, n)
    aa, bb = np.broadcast_to(a, (*front, m, k)), np.broadcast_to(b, (*front, k, n))
    for index in np.ndindex(*front):
        how = dict(keywords)
        if "bias" in how and len(extent) > 2:
            how["bias"] = how["bias"][index]
        assert_same_bits(got[index], check_exact("matmul", aa[index], bb[index], out_dtype="float32", **how))


@given(exact_products(), SEEDS)
def test_permuted_rows_columns_and_depths_permute_the_result(product: Product, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (m, k), n = product.a.shape, product.b.shape[1]
    rows, depths, columns = (rng.permutation(extent) for extent in (m, k, n))
    due = matmul(product, bias=None)[rows][:, columns]
    assert_same_bits(matmul(product, product.a[rows][:, depths], product.b[depths][:, columns], bias=None), due)


@given(exact_products(), st.data())
def test_a_product_is_the_sum_of_its_parts(product: Product, data: st.DataObject) -> None:
    """Cut along the depth, and along rows and columns: exact sums do not notice."""
    (m, k), n = product.a.shape, product.b.shape[1]
    row, depth, column = (data.draw(st.integers(0, extent)) for extent in (m, k, n))
    due = poplin.matmul(product.a, product.b, out_dtype="float32")
    sums = np.zeros((m, n), np.float32)
    for rows in (slice(row), slice(row, m)):
        for columns in (slice(column), slice(column, n)):
            for depths in (slice(depth), slice(depth, k)):
                poplin.matmul_acc(sums[rows, columns], product.a[rows, depths], product.b[depths, columns])
    assert_same_bits(sums, due)
