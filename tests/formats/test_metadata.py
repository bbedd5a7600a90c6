"""PopLibs' metadata byte: all 256 of them, both ways."""

import numpy as np
import pytest

from poplibs_py import cast
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import E4M3, F143, F152, QuarterArray, pack_metadata, unpack_metadata


def test_every_byte():
    for byte in range(256):
        bits = f"{byte:08b}"
        scale = int(bits[2:], 2) - (64 if bits[2] == "1" else 0)
        assert unpack_metadata(byte) == (F143 if bits[0] == "1" else F152, scale)
        assert pack_metadata(*unpack_metadata(np.uint8(byte))) == int(bits[0] + "0" + bits[2:], 2)


def test_every_format_and_scale():
    made = {pack_metadata(fmt, scale) for fmt in (F143, F152) for scale in range(-32, 32)}
    assert made == {byte for byte in range(256) if not byte & 0x40}
    assert pack_metadata("quarter") == 0x80


def test_arrays_and_their_bytes():
    codes = np.arange(256, dtype=np.uint8)
    for byte in (0x00, 0x1F, 0x20, 0x80, 0xBF):
        q = QuarterArray.from_metadata(codes, byte)
        assert q.metadata == byte
        np.testing.assert_array_equal(cast(q, "float32"), QuarterArray(codes, *unpack_metadata(byte)).to_array())
    rows = QuarterArray(np.zeros((2, 3), np.uint8), F152, [[4], [4]], (1, -1))
    assert rows.metadata == 4


@pytest.mark.parametrize(("call", "name"), [
    (lambda: pack_metadata(E4M3), "dtype"), (lambda: pack_metadata(F143, 32), "scale"),
    (lambda: pack_metadata(F143, -33), "scale"), (lambda: pack_metadata(F143, 0.5), "scale"),
    (lambda: unpack_metadata(256), "metadata"), (lambda: unpack_metadata(-1), "metadata"),
    (lambda: unpack_metadata(True), "metadata"), (lambda: unpack_metadata("x"), "metadata"),
    (lambda: QuarterArray.from_array([1.0], E4M3).metadata, "dtype"),
    (lambda: QuarterArray(np.zeros((2, 3), np.uint8), F152, [[4], [5]], (1, -1)).metadata, "scale"),
    (lambda: QuarterArray.from_metadata(np.zeros(2, np.int8), 0), "codes"),
])  # fmt: skip
def test_what_is_no_metadata_is_refused(call, name):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{name}: got"):
        call()
