"""Values that no function asked for, and the test that a call with one of them harms nothing."""

import decimal
import fractions
import re
import warnings

import numpy as np
from hypothesis import strategies as st

from poplibs_py.errors import PoplibsError, PoplibsWarning, UnsupportedError
from poplibs_py.formats import FORMATS
from poplibs_py.testing import strategies

HUGE = 2**45  # more bytes than there are addresses for, as soon as anything is allocated


class Raises:
    """Raises whatever it is asked."""

    def _raise(self, *_, **__):
        raise RuntimeError("asked too much")

    __array__ = __index__ = __float__ = __len__ = __iter__ = __getitem__ = __eq__ = __bool__ = __repr__ = _raise
    __hash__ = None
    shape = ndim = dtype = property(_raise)


NO_NUMBERS = [1j, np.complex64(0.5), Raises(), {"a": 1}, object(), int, np.datetime64(1, "s"), np.timedelta64(1, "s"),
              np.ma.masked, slice(2)]

SCALARS = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**70, 0.0, -0.5, 1.5, 1e308,
    float("nan"), float("inf"), float("-inf"), "", "0.5", "nonsense", "f143", b"bytes", (), [], {}, [1, 2, 3], ["a"],
    (-1, -1), (0, 0), (2, -3), (2**40, 2**40), (0, 2**62), (2**31, 2**31, 2**31), (1,) * 65, (1.5, 2), ("a", "b"),
    (3, 3, 3), [[1, 2], [3]], [1.0] * 10_000 + [-1.0], slice(None), ..., NotImplemented, len, *NO_NUMBERS,
    np.float64("nan"), np.int8(-1), np.uint64(2**64 - 1), np.float32(3), np.bool_(True), np.array(5), np.array([]),
    np.array("text"), np.datetime64("2020-01-01"), np.dtype("O"), np.dtype("f8"), range(5), iter(()), {1, 2},
    decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.longdouble(0.5),
]  # fmt: skip

SCALAR = st.sampled_from(SCALARS)

DTYPES = ["f8", "f4", "f2", ">f4", ">i8", "i1", "i4", "i8", "u8", "u1", "b1", "c8", "O", "U3", "S2", "M8[s]", "m8[s]",
          [("a", "f4")], "V3", "g"]  # fmt: skip


_DTYPE, _OF_FORMATS = st.sampled_from(DTYPES), st.sampled_from([f.dtype for f in FORMATS])
_SPECIALS = st.sampled_from([np.nan, np.inf, -np.inf, 1e30, 1e-45, -0.0])


class Subclass(np.ndarray):
    """An array class of somebody else's."""


@st.composite
def hostile_arrays(draw, array):
    """The array in another dtype, shape, layout, with other content, or as something that is not quite an array."""
    kinds = ["dtype", "format", "layout", "content", "wrapper", "empty"]
    if array.ndim > 1:  # reading all of a long vector is no error, and takes for ever
        kinds.append("huge")
    kind = draw(st.sampled_from(["shape", *kinds] if array.ndim and array.size else kinds))
    if kind == "dtype":
        return _as_dtype(array, draw(_DTYPE))
    if kind == "format":
        other = draw(_OF_FORMATS)
        return np.zeros(array.shape, other) if array.dtype.kind == "O" else _as_dtype(array, other)
    if kind == "shape":
        shapes = [array[..., None], array[None], array.ravel(), array.T, array[:-1], array[..., :-1], array[1:2],
                  array[0], np.concatenate([array, array])]
        return draw(st.sampled_from(shapes))
    if kind == "layout":
        return strategies.relaid(np.asarray(array), draw(strategies.layouts(broadcast=True)))
    if kind == "content":
        return draw(_content(array))
    if kind == "wrapper":
        return draw(st.sampled_from([array.tolist(), np.ma.masked_array(array), array.view(Subclass), array.tobytes(),
                                     np.array(array, object), iter([array])]))
    if kind == "huge":
        one = np.zeros((1,) * array.ndim, array.dtype)
        shape = [draw(st.sampled_from([1, 2**20, HUGE])) for _ in range(array.ndim)]
        try:
            return np.broadcast_to(one, shape)
        except ValueError:  # not even NumPy can describe it
            return one
    return np.zeros([draw(st.sampled_from([0, n])) for n in array.shape], array.dtype)


def _as_dtype(array, dtype):
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            return array.astype(dtype)
    except (TypeError, ValueError):
        return np.zeros(array.shape, dtype)


@st.composite
def _content(draw, array):
    """The same shape and dtype with other values: specials, or numbers that are no index."""
    changed = np.array(array)
    if not changed.size:
        return changed
    places = draw(st.lists(st.integers(0, changed.size - 1), min_size=1, max_size=3))
    flat = changed.reshape(-1)
    for place in places:
        if changed.dtype.kind in "iu":
            info = np.iinfo(changed.dtype)
            flat[place] = draw(st.sampled_from([info.min, info.max, info.max // 2, 0, 1, flat[0]]) | st.integers(0, 9))
        elif changed.dtype.kind == "b":
            flat[place] = not flat[place]
        elif changed.dtype.kind == "f" or any(changed.dtype == f.dtype for f in FORMATS):
            with np.errstate(all="ignore"):
                flat[place] = draw(_SPECIALS)
    return changed


def hostile(value):
    """A strategy of values to put in the place of a good one."""
    if isinstance(value, np.ndarray) and value.nbytes < 1 << 20 and value is not np.ma.masked:
        return hostile_arrays(value) | SCALAR
    if isinstance(value, dict):
        changed = st.sampled_from(sorted(value) or ["a"]).flatmap(
            lambda key: hostile(value.get(key)).map(lambda bad: {**value, key: bad}))
        return changed | st.just({**value, "unheardOf": 1}) | SCALAR
    if type(value) in (list, tuple) and value:
        changed = st.integers(0, len(value) - 1).flatmap(
            lambda i: hostile(value[i]).map(lambda bad: type(value)([*value[:i], bad, *value[i + 1:]])))
        return changed | SCALAR
    return SCALAR


def parts_of(value):
    """The arrays that a value is made of."""
    if isinstance(value, np.ndarray):
        return [value]
    if type(value) in (list, tuple, dict):
        return [part for one in (value.values() if isinstance(value, dict) else value) for part in parts_of(one)]
    if isinstance(value, np.generic):
        return []  # some scalars of ml_dtypes raise when asked for their data
    found = []
    for name in ("blocks", "codes", "row_offsets", "column_indices", "data", "indices", "indptr"):
        part = getattr(value, name, None)
        if isinstance(part, np.ndarray):
            found.append(part)
    return found


def arrays_of(arguments):
    """Every array that a call may reach, those whose bytes fit in memory."""
    return [part for value in arguments.values() for part in parts_of(value)
            if part.nbytes < 1 << 24 and part.dtype.kind != "O"]


def snapshot(arguments):
    """Their bytes."""
    return [np.ndarray.tobytes(part) for part in arrays_of(arguments)]


def attempt(function, arguments):
    """Make a call that may be bad: return whether it was served. Anything but a clear refusal fails.

    Parameters
    ----------
    function : callable
        What to call.
    arguments : dict
        Its keywords.
    """
    before = snapshot(arguments)
    refusal = ""
    try:
        function(**arguments)
    except (PoplibsWarning, MemoryError) as error:  # warnings are errors here; the call was about to be served
        refusal = type(error).__name__
    except PoplibsError as error:
        refusal = str(error)
        clear = isinstance(error, UnsupportedError) or re.search(r"\S+: got .*; allowed: .*\S", refusal)
        assert_clear(clear and len(refusal) < 600, refusal)
    if not refusal:
        return True
    assert snapshot(arguments) == before, "a refused call changed an operand"
    return False


def read_or_refuse(read):
    """Call what may refuse, and return what it returned; a refusal that is not clear fails."""
    refusal = ""
    try:
        return read()
    except MemoryError:
        return None
    except PoplibsError as error:
        refusal = str(error)
    assert_clear(re.search(r"^\S+: got .*; allowed: .*\S", refusal, re.DOTALL), refusal)
    return None


def assert_clear(clear, refusal):
    """Fail unless an error names the argument, what it was and what is allowed."""
    assert clear, f"unclear: {refusal}"
