"""Format facts against ml_dtypes and the definition, and what is refused."""

import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from format_oracle import MORE, NARROW, formats, value
from hypothesis import given

from poplibs_py import formats as presets
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import F143, FORMATS, FP16, Format, format_of
from poplibs_py.formats import presets as more
from poplibs_py.formats.format import LAYOUT
from poplibs_py.formats.presets import PRESETS


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_presets_agree_with_finfo(fmt):
    info = ml_dtypes.finfo(fmt.dtype)
    assert fmt.max == float(info.max)
    assert fmt.smallest_normal == float(info.smallest_normal)
    assert fmt.smallest_subnormal == float(info.smallest_subnormal)
    assert (fmt.bits, fmt.mantissa_bits, fmt.itemsize) == (info.bits, info.nmant, np.dtype(fmt.dtype).itemsize)
    assert 2 * fmt.unit_roundoff == float(info.eps)


def test_the_page_has_every_preset_and_its_facts():
    page = (Path(__file__).parents[2] / "docs/reference/formats.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in page.partition("\n| Name | Aliases |")[2].partition("\n\n")[0].splitlines()[2:]]
    assert [row[0].strip("`") for row in rows] == [name for f in FORMATS for name in vars(presets)
                                                   if vars(presets)[name] is f and name.isupper()]
    for fmt, (_, aliases, layout, bias, largest, least, infinity, nan) in zip(FORMATS, rows, strict=True):
        assert {format_of(alias) for alias in aliases.replace("`", "").split(", ")} == {fmt}
        assert {fmt.name, np.dtype(fmt.dtype).name} <= set(aliases.replace("`", "").split(", "))
        assert (layout, bias) == (f"1.{fmt.exponent_bits}.{fmt.mantissa_bits}", str(fmt.bias))
        assert fmt.max == pytest.approx(float(largest), rel=5e-3 if "e" in largest else 0)
        assert least == f"2^{round(np.log2(fmt.smallest_subnormal))}"
        assert infinity == ("yes" if fmt.has_infinity else "no")
        if nan != "yes":
            codes = np.arange(1 << fmt.bits, dtype=fmt.code_dtype)
            assert nan.split(", ") == [f"{code:#x}" for code in codes[np.isnan(codes.view(fmt.dtype))]]
        else:
            assert fmt.specials == "ieee"


@given(formats)
def test_facts_follow_from_the_definition(fmt):
    values = [value(code, fmt) for code in range(fmt.max_code + 1)]
    assert fmt.max == float(max(values))
    assert fmt.smallest_normal == float(value(fmt.zero << fmt.mantissa_bits, fmt))
    assert fmt.smallest_subnormal == float(min(v for v in values if v))
    assert all(float(np.float32(float(v))) == v for v in (max(values), *values[:9])), "FP32 holds every value"


@pytest.mark.parametrize("fmt", [*NARROW, *MORE], ids=str)
def test_scales_stay_where_fp32_holds_the_values(fmt):
    for s in (fmt.scales[0], fmt.scales[-1]):
        Format("scaled", fmt.exponent_bits, fmt.mantissa_bits, fmt.bias - s, fmt.specials, fmt.subnormals,
               fmt.signed, fmt.zero)
    assert F143.scales == range(-119, 109)


@pytest.mark.parametrize(("arguments", "name"), [
    (("", 4, 3, 7), "name"), (("x", 0, 3, 7), "exponent_bits"), (("x", 9, 3, 7), "exponent_bits"),
    (("x", 4, -1, 7), "mantissa_bits"), (("x", 8, 8, 127), "mantissa_bits"), (("x", 4, 3, 128), "bias"),
    (("x", 4, 3, -101), "bias"), (("x", 4, 3, 7, "inf"), "specials"), (("x", 4, 0, 7, "ieee"), "mantissa_bits"),
    (("x", 1, 3, 0, "ieee"), "exponent_bits"), (("x", 8, 3, 126, "ieee"), "bias"), (("x", 4, 3.0, 7), "mantissa_bits"),
    (("x", 8, 7, 127, "negative_zero"), "bias"), (("x", 4, 3, 7, "finite", True, False, False), "zero"),
    (("x", 4, 3, 7, "ieee", True, True, False), "zero"), (("x", 4, 3, 7, "negative_zero", True, False), "specials"),
    (("x", 4, 3, 7, "ieee", 1), "subnormals"), (("x", 4, 3, 7, "ieee", True, "yes"), "signed"),
    (("x", 8, 23, 127, "ieee", True, False), "mantissa_bits"),
    (("x", 1, 0, 0, "p3109", True, False, False), "exponent_bits"),
])  # fmt: skip
def test_layouts_that_are_no_format_are_refused(arguments, name):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{name}: got"):
        Format(*arguments)


@pytest.mark.parametrize("what", ["float16", "half", np.float16, np.dtype("f2"), FP16, np.zeros(2, np.float16)])
def test_format_of_takes_what_stands_for_a_format(what):
    assert format_of(what) is FP16


@pytest.mark.parametrize("fmt", PRESETS, ids=str)
def test_more_presets_are_found_by_name_and_dtype(fmt):
    assert format_of(fmt.name.upper()) is fmt
    assert getattr(more, fmt.name.upper()) is fmt
    if fmt.dtype is not None:
        for what in (fmt.dtype, fmt.dtype.name, fmt.dtype.type, np.zeros(1, fmt.dtype)):
            assert format_of(what) is fmt
        info = ml_dtypes.finfo(fmt.dtype)
        assert (fmt.bits, fmt.max) == (info.bits, float(info.max))
        assert fmt.smallest_subnormal == float(info.smallest_subnormal)
    assert Format("drawn", *(getattr(fmt, key) for key in LAYOUT[1:])).max == fmt.max
    assert pickle.loads(pickle.dumps(fmt)) == fmt


@pytest.mark.parametrize("what", [np.float64, "float64", int, 3, None, object(), ">f4", np.dtype("i4"), "nonsense"])
def test_format_of_refuses_the_rest(what):
    with pytest.raises(InvalidTypeError, match=r"^dtype: got"):
        format_of(what)


def test_format_of_a_float64_array_names_the_remedy():
    with pytest.raises(InvalidTypeError, match=r"^dtype: got ndarray of float64, .*; see its astype\(\"float32\"\)$"):
        format_of(np.ones(3))
