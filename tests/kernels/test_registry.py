"""Selection by patterns of formats: who serves what, who comes first, and why the others do not."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from poplibs_py.errors import UnsupportedError
from poplibs_py.formats import FORMATS
from poplibs_py.kernels import FAMILIES, registry
from poplibs_py.kernels.registry import Kernel, generality, kernels, select


def test_a_kernel_that_is_pickled_lies_where_this_process_has_it() -> None:
    for family in FAMILIES:
        for kernel in kernels(family):
            assert pickle.loads(pickle.dumps(replace(kernel, address=1))) == kernel
    absent = replace(kernel, name="no such", address=1)
    assert pickle.loads(pickle.dumps(absent)) == replace(absent, address=0)


@pytest.mark.parametrize(("pattern", "formats", "general"), [
    ("float32", "float32", 0),
    ("float32", "bfloat16", None),
    ("any->float32", "any->float32", 0),
    ("any->float32", "f143->float32", 1),
    ("any->float32", "float64->float32", None),  # no format of ours
    ("any->float32", "f143->bfloat16", None),
    ("float32,any->float32", "float32,float16->float32", 1),
    ("any,any->any", "f143,f152->e4m3", 3),
    ("bfloat16,bfloat16|f143->float32", "bfloat16,f143->float32", 0),
    ("bfloat16,bfloat16|f143->float32", "bfloat16,f152->float32", None),
    ("bfloat16|f143", "f14", None),
    ("float32,any->float32", "float32->float32", None),
    ("float32->any", "float32,float32->float32", None),
    ("4 bytes", "4 bytes", 0),
])  # fmt: skip
def test_a_pattern_serves(pattern: str, formats: str, general: int | None) -> None:
    assert generality(pattern, formats) == general


def made(name: str, formats: str, level: str, flags: int = 0) -> Kernel:
    return Kernel("mine", "op", formats, name, level, 1, (1, 1, 1), (1, 1, 1), flags)


MINE = (
    made("plain", "float32,any->float32", "portable", registry.CONSISTENT),
    made("wide", "float32,any->float32", "avx2"),
    made("halves", "float32,float16|bfloat16->float32", "avx2"),
    made("users", "any", "avx2"),
)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "kernels", lambda family: MINE)
    registry._candidates.cache_clear()
    yield
    registry._candidates.cache_clear()


@pytest.mark.usefixtures("mine")
def test_the_kernel_made_for_the_formats_comes_first_within_its_level() -> None:
    found = select("mine", "op", "float32,float16->float32")
    assert found.kernel.name == "halves"
    assert {r.kernel.name: r.reason for r in found.rejected} == {
        "wide": "made for any format; another of its level is made for these", "plain": "a higher level serves"}
    assert select("mine", "op", "float32,f143->float32").kernel.name == "wide"
    assert select("mine", "op", "any").kernel.name == "users"
    assert select("mine", "op", "float32,float16->float32", consistent=True).kernel.name == "plain"


@pytest.mark.usefixtures("mine")
def test_cost_weighs_more_than_what_a_kernel_was_made_for() -> None:
    found = select("mine", "op", "float32,float16->float32", cost=lambda k: float(k.name != "wide"))
    assert found.kernel.name == "wide"
    assert [r.reason for r in found.rejected] == ["cost 1 against 0"] * 2
    found = select("mine", "op", "float32,float16->float32", cost=lambda k: 3.0 if k.name == "plain" else 2.0)
    assert {r.kernel.name: r.reason for r in found.rejected} == {
        "wide": "predicted as fast; another comes first", "plain": "predicted 50.0% slower"}


@pytest.mark.usefixtures("mine")
def test_formats_that_no_pattern_takes_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"^no mine kernel does op for bfloat16,f143->float32 "):
        select("mine", "op", "bfloat16,f143->float32")


def test_served_formats_are_written_out() -> None:
    assert MINE[2].served == ("float32,float16->float32", "float32,bfloat16->float32")
    assert MINE[0].served == ("float32,any->float32",)
    alike = made("alike", "float16|bfloat16,=,bool->=", "portable")
    assert alike.served == ("float16,float16,bool->float16", "bfloat16,bfloat16,bool->bfloat16")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_registers_each_function_once_for_an_op_and_shape(family: str) -> None:
    rows = Counter((k.level, k.op, k.address, k.block) for k in kernels(family))
    assert {row: count for row, count in rows.items() if count > 1} == {}
    names = Counter((k.level, k.name) for k in kernels(family))
    assert max(names.values()) == 1


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_preset_has_the_kernels_of_every_family(fmt: object) -> None:
    """A line in formats.def is all that a format needs."""
    for family, op, formats in (
        ("cast", "decode", f"{fmt}->float32"), ("cast", "encode", f"float32->{fmt}"),
        ("conv", "finish", f"float32->{fmt}"),
        ("dot", "decode", f"{fmt}->float32"), ("dot", "epilogue", f"float32->{fmt}"), ("random", "normal", f"{fmt}"),
        ("softmax", "gradient", f"{fmt}"),
        ("sparse", "multiply", f"float32,{fmt}->float32"), ("sparse", "ready", f"{fmt}->float32"),
        ("sparse", "sample", f"float32,float32->{fmt}"),
    ):  # fmt: skip
        if (family, f"{fmt}") != ("cast", "float32"):
            assert select(family, op, formats).kernel.family == family
