"""Records, choices and formats come from one list each: what C and NumPy make of a list is the same, or refused."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poplibs_py.formats import F143, FORMATS, Format
from poplibs_py.kernels import _records, records

LISTS = Path(__file__).parents[2] / "src_cython" / "records"
LISTED = _records.records()


@pytest.mark.parametrize("record", LISTED)
def test_a_dtype_has_the_fields_of_its_struct_where_the_compiler_put_them(record: str) -> None:
    size, fields = LISTED[record]
    dtype = records.dtype_of(record)
    assert dtype.names == tuple(name for name, *_ in fields)
    assert dtype.itemsize == size
    for name, _, offset, size_of_field, count in fields:
        inside, at = dtype.fields[name][:2]
        assert (at, inside.itemsize) == (offset, size_of_field)
        assert inside.shape == ((count,) if count else ())
        nested = inside.base.names
        assert nested is None or nested == records.dtype_of(LISTED_TYPE[record, name]).names
    begins = [offset for _, _, offset, *_ in fields[1:]] + [size]
    ends = [offset + size_of_field for _, _, offset, size_of_field, _ in fields]
    assert all(end <= begin for end, begin in zip(ends, begins, strict=True))


LISTED_TYPE = {(record, name): kind for record, (_, fields) in LISTED.items() for name, kind, *_ in fields}


@pytest.mark.skipif(not LISTS.exists(), reason="the sources are not here")
def test_every_list_is_compiled_field_by_field() -> None:
    found: dict[str, list[str]] = {}
    for path in LISTS.glob("*.def"):
        inside = None
        for kind, words in re.findall(r"\b(RECORD|FIELD|ARRAY|POINTER)\(([^)]*)\)", path.read_text()):
            first, *rest = (word.strip() for word in words.split(","))
            if kind == "RECORD":
                inside = found.setdefault(first, [])
            else:
                inside.append(rest[0])
    assert found == {record: [name for name, *_ in fields] for record, (_, fields) in LISTED.items()}


def changed(record: str, field: str, **values: Any) -> dict[str, Any]:
    """The compiler's rows with one field's different: type, offset, bytes or count."""
    rows = deepcopy(LISTED)
    keys = ("name", "type", "offset", "bytes", "count")
    size, fields = rows[record]
    named = [dict(zip(keys, row, strict=True)) for row in fields]
    rows[record] = size, [tuple((row | (values if row["name"] == field else {})).values()) for row in named]
    return rows


@pytest.mark.parametrize(("field", "values"), [
    ("depth", {"offset": 84}),
    ("depth", {"bytes": 4}),
    ("depth", {"type": "int32_t"}),
    ("depth", {"type": "long double"}),
    ("depth", {"count": 2}),
])  # fmt: skip
def test_a_changed_field_is_refused_by_name(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ImportError, match=rf"^record pop_sparse_item, field {field}: "):
        records.make_dtypes(changed("pop_sparse_item", field, **values))


def test_a_record_of_another_size_is_refused_by_name() -> None:
    rows = deepcopy(LISTED)
    size, fields = rows["pop_gemm_spec"]
    rows["pop_gemm_spec"] = size + 8, fields
    with pytest.raises(ImportError, match=rf"^record pop_gemm_spec: {size + 8} bytes in C, {size} in NumPy$"):
        records.make_dtypes(rows)


def test_a_field_left_out_shifts_those_after_it_and_is_refused() -> None:
    rows = deepcopy(LISTED)
    size, fields = rows["pop_random_call"]
    rows["pop_random_call"] = size, [row for row in fields if row[0] != "scale"]
    with pytest.raises(ImportError, match=r"^record pop_random_call, field shift: 4 bytes at 36 in C, 4 at 32 in "):
        records.make_dtypes(rows)


def test_a_record_is_filled_by_its_fields() -> None:
    made = records.record_of("pop_softmax_item", rows=3, formats=[records.format_facts(F143, scale=2)] * 3)
    assert made["rows"] == 3
    assert made["columns"] == 0
    assert made["formats"]["bias"].tolist() == [F143.bias - 2] * 3
    with pytest.raises(ValueError, match="no field of name"):
        records.record_of("pop_softmax_item", row=3)


def test_choices_are_numbered_from_zero_in_the_order_of_their_words() -> None:
    for choice, words in _records.choices().items():
        assert list(records.numbers_of(choice).values()) == list(range(len(words)))
    members = {member.name: member.value for member in records.choice("Mode")}
    assert members == {"DIRECT": 0, "LINES": 1, "TRANSPOSED": 2, "PREPARED": 3, "ALONG": 4, "NEIGHBOURS": 5}
    assert [f"{f}: {infinite}" for f in FORMATS[2:4] for infinite in (records.infinite_overflow(f),)] == [
        "bfloat16: 2", "f143: 1"]  # fmt: skip


def test_numbers_of_a_choice_are_a_copy() -> None:
    records.numbers_of("rounding")["nearest-even"] = 7
    assert records.numbers_of("rounding")["nearest-even"] == 0


def test_every_preset_has_a_number_of_its_own() -> None:
    assert set(records.FORMAT_NUMBERS) == {f.name for f in FORMATS}
    assert sorted(records.FORMAT_NUMBERS.values()) == list(range(len(FORMATS)))


@pytest.mark.parametrize("fact", ["bytes", *records.dtype_of("pop_format").names])
def test_a_format_with_another_fact_is_refused_by_name(fact: str) -> None:
    listed = deepcopy(_records.formats())
    size, number, facts = listed["f152"]
    listed["f152"] = (size + (fact == "bytes"), number, {k: v + (k == fact) for k, v in facts.items()})
    with pytest.raises(ImportError, match=rf"^format f152, {fact}: \d+ in formats.def, \d+ in poplibs_py.formats$"):
        records.check_formats(listed, FORMATS)


def test_a_format_in_one_place_alone_is_refused_by_name() -> None:
    listed = _records.formats()
    with pytest.raises(ImportError, match=r"^format e3m4: in poplibs_py.formats, not in .*/formats.def$"):
        records.check_formats(listed, (*FORMATS, Format("e3m4", 3, 4, 3)))
    with pytest.raises(ImportError, match=rf"^format {FORMATS[-1]}: in .*/formats.def, not in poplibs_py.formats$"):
        records.check_formats(listed, FORMATS[:-1])


def test_facts_of_a_scaled_format_move_its_bias() -> None:
    assert records.format_facts(F143) == (4, 3, 8, 2, 1, 0, 0)
    assert records.format_facts(F143, -3) == (4, 3, 11, 2, 1, 0, 0)
    assert np.array(records.format_facts(F143), records.dtype_of("pop_format"))["specials"] == 2
