"""A call survives as a line of text, layout and all."""

import os
import pickle
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_bits import bits

from poplibs_py.config import Settings
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import F143, Format
from poplibs_py.formats.bounds import matmul_ball
from poplibs_py.ops import Op, catalogue
from poplibs_py.testing import check, find_op, strategies, values_of
from poplibs_py.testing.calls import calls
from poplibs_py.testing.ops import PREPARED
from poplibs_py.testing.replay import Snapshot, decode_call, encode_call

OPS = [*catalogue, *PREPARED]


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
    far = np.lib.stride_tricks.as_strided(np.ones(1, np.int8), (2, 2), (3 << 30, 0))
    assert "spans 3,221,225,473 bytes has no text form" in Snapshot.of("op", (far,), {}).reproducer()
    assert Snapshot.of("op", (object(),), {}).reproducer() == "(no line can reproduce it: object has no text form)"


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
    record = Op("wrong_op.wrong_matmul", "", "wrong_op:bound", "", reference="wrong_op:reference")
    monkeypatch.setitem(PREPARED, "wrong", record)
    for module in ("testing.ops", "ops.record"):
        monkeypatch.setattr(f"poplibs_py.{module}.located", lambda path: globals()[path.split(":")[1]])
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


def test_the_line_says_what_was_emulated(monkeypatch):
    monkeypatch.setitem(Snapshot.reproducer.__globals__, "settings", Settings(emulate_avx512=True))
    line = Snapshot.of("no such op", (), {}).reproducer()
    assert line.startswith("POPLIBS_MAX_ISA=amx POPLIBS_NUM_THREADS=1 POPLIBS_EMULATE_AVX512=1 python -c ")


def test_the_line_is_a_shell_command():
    command = Snapshot.of("no such op", (np.ones(2, np.float32),), {}).reproducer()
    words = shlex.split(command)
    settings = dict(word.split("=") for word in words if re.fullmatch(r"[A-Z_]+=\w+", word))
    python = words.index("python")
    ran = subprocess.run([sys.executable, *words[python + 1:]], env={**os.environ, **settings}, capture_output=True,
                         text=True, check=False, cwd=Path(__file__).parents[2])
    assert "op: got no such op; allowed:" in ran.stderr


@pytest.mark.parametrize("op", OPS)
@settings(max_examples=settings.default.max_examples // 5,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_call_that_can_be_drawn_runs_again_from_its_line(op, data):
    operands, keywords = data.draw(calls(op))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", folder)
        line = Snapshot.of(op, operands, keywords).reproducer()
        got = find_op(op).face(*operands, **keywords)
        *_, python, dash, code = shlex.split(line)
        assert (python, dash) == ("python", "-c")
        made = {}
        exec(code.replace("testing.replay", "again = testing.replay"), made)
    assert bits(made["again"]) == bits(got)


@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), ops=st.lists(st.sampled_from(OPS), min_size=8, max_size=8, unique=True))
def test_lines_run_in_a_process_of_their_own(data, ops):
    drawn = {op: data.draw(calls(op)) for op in ops}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", folder)
        lines = [Snapshot.of(op, *call).reproducer() for op, call in drawn.items()]
        results = [check(op, *operands, **keywords) for op, (operands, keywords) in drawn.items()]
        codes = [re.sub(r"(testing\.replay.*)", r"made += (\1,)", shlex.split(line)[-1]) for line in lines]
        program = "\n".join(["made = ()", *codes, "import pickle, sys", "sys.stdout.buffer.write(pickle.dumps(made))"])
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True,
                             cwd=Path(__file__).parents[2])
    assert [bits(x) for x in pickle.loads(ran.stdout)] == [bits(x) for x in results]
