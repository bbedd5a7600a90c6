"""A call survives as a line of text, layout and all."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import F143, Format
from poplibs_py.formats.bounds import matmul_ball
from poplibs_py.testing import OPS, Op, check, strategies, values_of
from poplibs_py.testing.replay import decode_call, encode_call, reproducer


@given(st.data(), strategies.formats(), strategies.layouts(broadcast=True))
def test_arrays_come_back_as_they_lay(data, fmt, layout):
    shape = data.draw(strategies.shapes(data.draw(st.integers(0, 3)), most=5))
    array = strategies.relaid(data.draw(strategies.arrays(shape, fmt)), layout)
    _, (again,), _ = decode_call(encode_call("op", (array,), {}))
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.flags.writeable == array.flags.writeable
    if array.size:
        assert again.strides == array.strides
        assert again.ctypes.data % 64 == array.ctypes.data % 64
    assert again.tobytes() == array.tobytes()


def test_keywords_come_back():
    keywords = {"alpha": 2.5, "out_dtype": F143, "partials_type": "half", "bias": None, "custom": Format("x", 3, 2, 3),
                "shape": (1, 2), "list": [1, "a"], "dtype": np.dtype(ml_dtypes.bfloat16), "options": {"a": 0.5}}
    assert decode_call(encode_call("op", (), keywords))[2] == keywords


def test_what_has_no_text_form_says_so():
    assert reproducer("op", (object(),), {}) == "(no line can reproduce it: object has no text form)"


@pytest.mark.parametrize("token", ["", "nonsense", "/nowhere/at/all.call"])
def test_a_bad_token_is_named(token):
    with pytest.raises(InvalidArgumentError, match="token: got"):
        decode_call(token)


# An op that is wrong, for what its failure says.


def wrong_matmul(a, b):
    result = (values_of(a) @ values_of(b)).astype(np.float32)
    result[0, 0] += 1
    return result


def reference(a, b):
    return values_of(a) @ values_of(b)


def bound(a, b):
    return matmul_ball(values_of(a), values_of(b))


@pytest.mark.parametrize("k", [3, 400])
def test_the_printed_line_makes_the_same_failure_again(monkeypatch, tmp_path, k):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(OPS, "wrong", Op("wrong_op:wrong_matmul", "wrong_op:reference", "wrong_op:bound"))
    monkeypatch.setattr("poplibs_py.testing.ops._function", lambda path: globals()[path.split(":")[1]])
    a, b = np.random.default_rng(1).standard_normal((2, k, k)).astype(np.float32)
    with pytest.raises(AssertionError, match="1 of") as caught:
        check("wrong", a, b.T)
    line = re.search(r"again: .*? python -c (.*)", str(caught.value))[1]
    token = re.search(r"replay\('(.*)'\)", line)[1]
    op, (again_a, again_b), _ = decode_call(token)
    assert op == "wrong"
    assert again_b.strides == b.T.strides
    with pytest.raises(AssertionError) as second:
        check(op, again_a, again_b)
    assert str(second.value).splitlines()[1] == str(caught.value).splitlines()[1]


def test_the_line_is_a_shell_command():
    command = reproducer("no such op", (np.ones(2, np.float32),), {})
    words = shlex.split(command)
    settings = dict(word.split("=") for word in words if re.fullmatch(r"[A-Z_]+=\w+", word))
    python = words.index("python")
    ran = subprocess.run([sys.executable, *words[python + 1:]], env={**os.environ, **settings}, capture_output=True,
                         text=True, check=False, cwd=Path(__file__).parents[2])
    assert "op: got no such op; allowed:" in ran.stderr
