"""QuarterArray: values, scales under indexing, files, and what is refused."""

import io
import operator
import re
import tracemalloc
import zipfile

import numpy as np
import pytest
from format_oracle import NARROW, USERS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E4M3, F143, F152, FORMATS, FP32, Format, QuarterArray, auto_scale
from poplibs_py.formats.reference import decode
from poplibs_py.popops import cast

PREFERRED = (F143, F152, E4M3, USERS[0], USERS[6])


@st.composite
def quarters(draw, min_dims=0):
    fmt = draw(st.sampled_from(PREFERRED))
    shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=0, max_side=9))
    codes = draw(hnp.arrays(fmt.code_dtype, shape, elements=st.integers(0, (1 << fmt.bits) - 1)))
    blocks = draw(st.none() | st.tuples(*[st.integers(1, 10) | st.just(-1) for _ in shape])) or None
    plain = QuarterArray(codes, fmt, 0, blocks)
    scales = st.integers(fmt.scales[0], fmt.scales[-1])
    scale = draw(scales) if blocks is None else draw(hnp.arrays(np.int8, plain.scale.shape, elements=scales))
    return QuarterArray(codes, fmt, scale, blocks)


def values(q):
    """The values element by element, from the definition."""
    out = np.empty(q.shape)
    for place in np.ndindex(q.shape):
        block = () if q.block_shape is None else tuple(i // b for i, b in zip(place, q.block_shape, strict=True))
        scale = q.scale if q.block_shape is None else int(q.scale[block])
        out[place] = decode(q.codes[place], q.format, scale)
    return out


@given(quarters())
def test_values_are_code_times_scale(q):
    np.testing.assert_array_equal(q.to_array(np.float64), values(q))
    np.testing.assert_array_equal(np.asarray(q), values(q))
    np.testing.assert_array_equal(q.T.to_array(), q.to_array().T)
    assert (q.ndim, q.size) == (q.codes.ndim, q.codes.size)
    assert q.nbytes == q.codes.nbytes + np.asarray(q.scale, np.int8).nbytes


@given(quarters(), st.data())
def test_a_part_has_the_values_of_the_part(q, data):
    index = data.draw(hnp.basic_indices(q.shape, allow_newaxis=True, max_dims=6))
    part = q[index]
    assert np.shares_memory(part.codes, q.codes) or part.size == 0
    np.testing.assert_array_equal(part.to_array(), q.to_array()[index])
    np.testing.assert_array_equal(values(part), q.to_array()[index])


def test_a_slice_at_the_border_of_a_block_keeps_the_blocks():
    q = QuarterArray(np.zeros((64, 48), np.uint8), F143, np.arange(8).reshape(4, 2), (16, 24))
    assert q[16:, :24].block_shape == (16, 24)
    assert q[16:, :24].scale.tolist() == [[2], [4], [6]]
    assert q[8:16, 24:].block_shape == (1, 24)


@given(quarters(), st.booleans())
def test_files_keep_everything(tmp_path_factory, q, as_text):
    path = tmp_path_factory.mktemp("quarter") / "q.npz"
    q.save(str(path) if as_text else path)
    loaded = QuarterArray.load(path)
    np.testing.assert_array_equal(loaded.codes, q.codes)
    np.testing.assert_array_equal(loaded.scale, q.scale)
    assert (loaded.format, loaded.block_shape, loaded.dtype) == (q.format, q.block_shape, q.dtype)


@pytest.mark.parametrize("content", [b"", b"not a file of arrays", b"PK\x03\x04broken"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"^path: got"):
        QuarterArray.load(path)
    np.savez(path, codes=np.zeros(3))
    with pytest.raises(InvalidArgumentError, match=r"^path: got"):
        QuarterArray.load(path)
    with pytest.raises(FileNotFoundError):
        QuarterArray.load(tmp_path / "missing.npz")


def claiming(path, name, header):
    """A file like one that `save` wrote, but for the header of one of its arrays."""
    with np.load(path) as file:
        parts = {key: io.BytesIO() for key in file}
        for key, body in parts.items():
            np.lib.format.write_array(body, file[key])
    parts[name] = io.BytesIO()
    np.lib.format.write_array_header_1_0(parts[name], header)
    with zipfile.ZipFile(path, "w") as archive:
        for key, body in parts.items():
            archive.writestr(f"{key}.npy", body.getvalue())


@pytest.mark.parametrize("shape", [(99999999999,), (1 << 70,), (-1,), (-8, -8), (1 << 33, 1 << 33)])
@pytest.mark.parametrize("name", ["codes", "scale", "block_shape"])
def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path, name, shape):
    path = tmp_path / "q.npz"
    QuarterArray.from_array(np.ones((4, 4)), F143, [[0], [1]], (2, -1)).save(path)
    claiming(path, name, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with pytest.raises(InvalidArgumentError, match=rf"^path: got .* \(array '{name}' claims a shape of"):
        QuarterArray.load(path)


@pytest.mark.parametrize("name", ["codes", "scale", "block_shape", "format"])
def test_a_small_file_that_unpacks_to_a_large_one_takes_no_memory(tmp_path, name):
    path = tmp_path / "q.npz"
    QuarterArray.from_array(np.ones((4, 4)), F143, [[0], [1]], (2, -1)).save(path)
    with np.load(path) as file:
        parts = dict(file)
    parts[name] = np.zeros(1 << 25, np.uint8)
    np.savez_compressed(path, **parts)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError, match=r"^path: got .* \(array '\w+' is compressed\)"):
            QuarterArray.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "value"), [
    ("format", np.array("[" * 10**5)), ("format", np.array("[" * 5000)), ("format", np.array("1" * 5000)),
    ("format", np.zeros(3)), ("block_shape", np.ones(1000, np.int64)), ("block_shape", np.array([2.5, 4])),
    ("block_shape", np.array(["2", "4"])), ("scale", np.array(["a"])), ("scale", np.array([[0], [200]])),
])
def test_parts_that_do_not_fit_are_refused_by_the_path(tmp_path, name, value):
    path = tmp_path / "q.npz"
    QuarterArray.from_array(np.ones((4, 4)), F143, [[0], [1]], (2, -1)).save(path)
    with np.load(path) as file:
        parts = dict(file)
    np.savez(path, **(parts | {name: value}))
    with pytest.raises(InvalidArgumentError, match=r"^path: got"):
        QuarterArray.load(path)


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, min_side=0, max_side=12), elements=st.floats(width=32)),
       st.sampled_from(PREFERRED), st.booleans())
def test_the_automatic_scale_is_the_least_without_overflow(x, fmt, by_row):
    blocks = (1,) * (x.ndim - 1) + (max(x.shape[-1], 1),) if by_row else None
    scale = auto_scale(x, fmt, blocks)
    rows = x.reshape(-1, x.shape[-1]) if by_row and x.size else x.reshape(1, -1)
    for row, s in zip(rows, scale.reshape(-1).tolist(), strict=by_row and x.size > 0):
        amax = np.abs(row[np.isfinite(row)]).max(initial=0).astype(np.float64)
        assert s == (0 if amax == 0 else min(s for s in fmt.scales if amax <= fmt.max * 2.0**s)), amax


@pytest.mark.parametrize("fmt", [f for f in FORMATS if f.bits == 8], ids=str)
def test_the_automatic_scale_reaches_as_far_as_fp32_and_refuses_what_lies_beyond(fmt):
    far = np.ldexp(np.float32([1.5, -1.25]), [[60], [-60], [-100], [110]])
    for x in (far, *far):
        q = cast(x, fmt, scale="auto", block_shape=(1,) * (x.ndim - 1) + (-1,))
        np.testing.assert_array_equal(q.to_array(), x)
        np.testing.assert_array_equal(QuarterArray.from_array(x, fmt, "auto", q.block_shape).codes, q.codes)
    for x in (np.float32([3.4e38]), np.float64([1e300, np.nan])):
        for make in (cast, QuarterArray.from_array):
            with pytest.raises(InvalidArgumentError, match=r"^scale: got 'auto' for numbers up to "):
                make(x, fmt, scale="auto")
        assert not np.isfinite(cast(x, fmt, scale=fmt.scales[-1]).to_array()).any()


def test_scales_of_blocks_are_transposed_with_the_codes():
    q = QuarterArray.from_array(np.ones((2, 3, 2)), F143, np.arange(-6, 6).reshape(2, 3, 2), (1, 1, 1))
    for turned in (q.T, q[:, 1:].T, q.T[1]):
        np.testing.assert_array_equal(cast(turned, "float32"), np.ones(turned.shape))


def test_numbers_are_no_codes_of_a_user_s_format():
    with pytest.raises(InvalidTypeError, match=r"^codes: got float64; .* rounded by QuarterArray.from_array and cast"):
        QuarterArray(np.ones((2, 8)), Format("t", 3, 2, 3))
    with pytest.raises(InvalidTypeError, match=r"^codes: got float64"):
        QuarterArray(np.array(1.0), Format("t", 3, 2, 3))
    with pytest.raises(InvalidArgumentError, match=r"^codes: got 0x40"):
        QuarterArray(np.array(64, np.uint8), Format("t", 3, 2, 3))


@given(quarters(), quarters())
def test_equality_is_element_by_element(p, q):
    for other in (q, p.copy(), p.to_array(), p.to_array(np.float64), 0, 1.5):
        left, right = p.to_array(), other.to_array() if isinstance(other, QuarterArray) else other
        try:
            want = np.equal(left, right)
        except ValueError:  # shapes that do not meet
            with pytest.raises(InvalidArgumentError, match=r"^other: got shape"):
                operator.eq(p, other)
            continue
        np.testing.assert_array_equal(p == other, want, strict=True)
        np.testing.assert_array_equal(p != other, ~want, strict=True)
        np.testing.assert_array_equal(other == p, want, strict=True)


def test_equality_with_what_holds_no_numbers():
    q = QuarterArray.from_array([1.0, 2.0])
    assert q != "q"
    assert q != None  # noqa: E711
    with pytest.raises(InvalidTypeError, match=r"^other: got"):
        operator.eq(q, np.array(["a", "b"]))
    with pytest.raises(TypeError, match="unhashable"):
        hash(q)


def test_from_array_takes_the_automatic_scale_and_blocks():
    x = np.array([[1.0, 2.0], [300.0, -4000.0]])
    q = QuarterArray.from_array(x, F143, "auto", (1, -1))
    assert q.scale.tolist() == [[-6], [5]]
    assert q.to_array().tolist() == [[1.0, 2.0], [288.0, -4096.0]]
    assert q.dtype == F143.dtype
    assert QuarterArray.from_array(np.arange(4), USERS[1]).dtype == np.uint8


def test_no_arithmetic_behind_the_back():
    q = QuarterArray.from_array([1.0, 2.0])
    with pytest.raises(TypeError):
        q + 1
    with pytest.raises(TypeError):
        np.add(np.ones(2), q)


CODES = np.zeros((4, 6), np.uint8)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: QuarterArray([1, 2], F143), "codes: got"),
    (lambda: QuarterArray(CODES.astype(np.int8), F143), "codes: got int8; allowed: a NumPy array of uint8"),
    (lambda: QuarterArray(CODES, "fp16"), "codes: got uint8"),
    (lambda: QuarterArray(np.full(3, 0x40, np.uint8), USERS[1]), "codes: got 0x40; allowed: codes of 6 bits"),
    (lambda: QuarterArray(np.zeros(3, np.float32), FP32), "dtype: got float32"),
    (lambda: QuarterArray(CODES, "f64"), "dtype: got f64"),
    (lambda: QuarterArray(CODES, F143, 109), "scale: got 109; allowed: whole numbers from -119 to 108 for f143"),
    (lambda: QuarterArray(CODES, F143, np.int64(-120)), "scale: got"),
    (lambda: QuarterArray(CODES, F143, 1.0), "scale: got 1.0"),
    (lambda: QuarterArray(CODES, F143, np.nan), "scale: got nan"),
    (lambda: QuarterArray(CODES, F143, "auto"), "scale: got auto"),
    (lambda: QuarterArray(CODES, F143, [0, 1]), r"scale: got an array of shape (2,)"),
    (lambda: QuarterArray(CODES, F143, [0, 1], (2, 6)), r"scale: got an array of shape (2,)"),
    (lambda: QuarterArray(CODES, F143, 0, (2,)), "block_shape: got (2,)"),
    (lambda: QuarterArray(CODES, F143, 0, (0, 2)), "block_shape: got (0, 2)"),
    (lambda: QuarterArray(CODES, F143, 0, (2.0, 2)), "block_shape: got (2.0, 2)"),
    (lambda: QuarterArray(CODES, F143, 0, 3), "block_shape: got 3"),
    (lambda: QuarterArray(CODES, F143)[[0, 1]], "index: got"),
    (lambda: QuarterArray(CODES, F143)[0, 0, 0], "index: got"),
    (lambda: QuarterArray(CODES, F143)[..., ...], "index: got"),
    (lambda: QuarterArray(CODES, F143)[True], "index: got True"),
    (lambda: QuarterArray(CODES, F143).to_array(np.float16), "dtype: got"),
    (lambda: QuarterArray.from_array(["a"], F143), "values: got"),
    (lambda: QuarterArray.from_array([1j], F143), "values: got"),
    (lambda: QuarterArray.from_array([1.0], F143, overflow="inf"), "overflow: got 'inf'"),
    (lambda: QuarterArray.from_array([1.0], F143, overflow="wrap"), "overflow: got wrap"),
    (lambda: QuarterArray.from_array([1.0], F143, rounding="stochastic"), "rounding: got stochastic"),
])  # fmt: skip
def test_bad_arguments_are_named(make, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + re.escape(message)):
        make()


def test_an_index_beyond_the_end_is_numpys_error():
    with pytest.raises(IndexError):
        QuarterArray(CODES, F143)[4]


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_presets_load_as_themselves(tmp_path, fmt):
    QuarterArray(np.zeros(2, fmt.dtype), fmt).save(tmp_path / "q")
    assert QuarterArray.load(tmp_path / "q").format is fmt


def test_formats_near_fp32s_edge_take_few_scales():
    assert BF16.scales == range(1)
    with pytest.raises(InvalidArgumentError, match=r"^scale: got 1; allowed: whole numbers from 0 to 0 for bfloat16"):
        QuarterArray(np.zeros(2, np.uint16), BF16, 1)


@pytest.mark.parametrize(("bias", "scales"), [(127, range(128)), (-90, range(-128, 8))])
def test_scales_of_formats_far_from_zero_are_those_that_8_bits_hold(bias, scales):
    fmt = Format("far", 5, 2, bias)
    assert fmt.scales == scales
    for s in (scales[0], scales[-1]):
        q = QuarterArray(np.uint8([1, 0x81, 0x7B]), fmt, s)
        due = np.ldexp(np.array([1, -1, 7 * 2.0**29]), 1 - bias - 2 + s)
        assert (q.scale, q.to_array().tolist(), cast(q, "float32").tolist()) == (s, due.tolist(), due.tolist())
    for beyond in (scales[0] - 1, scales[-1] + 1):
        with pytest.raises(InvalidArgumentError, match=rf"^scale: got {beyond}; allowed: whole numbers from"):
            QuarterArray(np.uint8([1]), fmt, beyond)


def test_codes_beyond_a_users_format_are_nan_as_cast_has_them():
    q = QuarterArray(np.array([12, 13], np.uint8), Format("e3m2", 3, 2, bias=3))
    q.codes[1] = 0xFF
    assert np.array_equal(q.to_array(), cast(q, FP32), equal_nan=True)
    assert np.isnan(q.to_array()).tolist() == [False, True]
    assert repr(q).startswith("QuarterArray([1., nan]")
