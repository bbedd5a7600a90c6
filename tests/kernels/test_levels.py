"""Which levels may be used: what the CPU has, what the settings allow, what the build holds."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from poplibs_py.config import LEVELS, Settings
from poplibs_py.kernels import _cpu, levels

# The words of a CPU that has all that a level needs, as cpu.h orders them, after Intel's manual (CPUID).
_LEAF_1_ECX = sum(1 << bit for bit in (0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29))  # SSE3 to F16C
_LEAF_7_EBX = sum(1 << bit for bit in (3, 5, 8))  # BMI1, AVX2, BMI2
_AVX512_EBX = sum(1 << bit for bit in (16, 17, 28, 30, 31))  # F, DQ, CD, BW, VL
_BF16_ECX = sum(1 << bit for bit in (1, 6, 11))  # VBMI, VBMI2, VNNI
WORDS = {
    "avx2": [_LEAF_1_ECX, _LEAF_7_EBX, 0, 0, 0, 0x21, 0x6],
    "avx512": [_LEAF_1_ECX, _LEAF_7_EBX | _AVX512_EBX, 0, 0, 0, 0x21, 0xE6],
    "avx512_bf16": [_LEAF_1_ECX, _LEAF_7_EBX | _AVX512_EBX, _BF16_ECX, 0, 1 << 5, 0x21, 0xE6],
    "amx": [_LEAF_1_ECX, _LEAF_7_EBX | _AVX512_EBX, _BF16_ECX, 1 << 22 | 1 << 24, 1 << 5, 0x21, 0x600E6],
}


@pytest.mark.parametrize("level", WORDS)
def test_a_level_needs_every_bit_that_its_compiler_flags_allow(level: str):
    whole = WORDS[level]
    assert _cpu.levels(whole) == LEVELS[: LEVELS.index(level) + 1]
    for place, word in enumerate(whole):
        for bit in range(32):
            if word >> bit & 1:
                less = [*whole]
                less[place] ^= 1 << bit
                assert level not in _cpu.levels(less), f"word {place}, bit {bit}"


def test_levels_that_are_in_one_place_alone_are_refused(monkeypatch: pytest.MonkeyPatch):
    assert _cpu.levels() == LEVELS
    monkeypatch.setattr("poplibs_py.config.LEVELS", LEVELS[:-1])
    spec = importlib.util.spec_from_file_location("poplibs_py.kernels.levels_again", levels.__file__)
    with pytest.raises(ImportError, match=r"^levels: portable, .*, amx in src_cython/cpu/levels\.def, .*bf16 in pop"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_this_cpu_has_what_its_words_say():
    assert len(_cpu.words()) == len(WORDS["amx"])
    for level in WORDS.keys() & {*_cpu.levels(_cpu.words())}:
        assert all(have & need == need for have, need in zip(_cpu.words(), WORDS[level], strict=True))


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch):
    """Return a function that tells the levels' statuses anew, with other settings."""
    def ask(**changed: object) -> dict[str, str]:
        monkeypatch.setattr(levels, "settings", Settings(**changed))
        levels.level_statuses.cache_clear()
        return {found.name: found.reason for found in levels.level_statuses()}

    yield ask
    monkeypatch.undo()
    levels.level_statuses.cache_clear()


def test_emulated_amx_counts_as_amx_where_levels_are_capped(status):
    for level in LEVELS[:-1]:
        assert status(max_isa=level, emulate_amx=True)["amx_emulated"] == f"above POPLIBS_MAX_ISA={level}"
        assert levels.available_levels()[-1] in LEVELS[: LEVELS.index(level) + 1]
    assert not status(emulate_amx=True)["amx_emulated"].startswith("above")
    assert "amx_emulated" not in status()


def test_emulated_avx512_runs_where_it_is_asked_for_alone(status, monkeypatch, tmp_path: Path):
    """Whatever the CPU has: its own instructions are never taken for loops, nor these for them."""
    def levels_of_avx512(**changed: object) -> list[str]:
        return [found for name, found in status(**changed).items() if name.startswith("avx512")]

    monkeypatch.setattr(levels, "_MODULES", tmp_path)
    for cpu in ("avx2", "amx"):
        monkeypatch.setattr(levels, "words", lambda cpu=cpu: WORDS[cpu])
        (tmp_path / f"dot_avx512{EXTENSION_SUFFIXES[0]}").touch()  # an ordinary build's
        assert levels_of_avx512(emulate_avx512=True) == ["not built: POPLIBS_BUILD_EMULATED_AVX512=1 builds it"] * 2
        (tmp_path / f"dot_avx512{EXTENSION_SUFFIXES[0]}").unlink()
        for level in ("avx512", "avx512_bf16", "amx_emulated"):
            (tmp_path / f"dot_{level}_in_loops{EXTENSION_SUFFIXES[0]}").touch()
        asked = status(emulate_avx512=True, emulate_amx=True)
        assert {asked[level] for level in ("avx512", "avx512_bf16", "amx_emulated")} == {
            "usable, emulated: loops in place of AVX-512's instructions"}
        assert levels.available_levels() == ("avx512", "avx512_bf16", "amx_emulated")
        assert levels_of_avx512(emulate_avx512=True, max_isa="avx2") == ["above POPLIBS_MAX_ISA=avx2"] * 2
        unasked = {"avx2": ["the CPU or system lacks avx512", "the CPU or system lacks avx512, avx512_bf16"],
                   "amx": ["emulated in this build: POPLIBS_EMULATE_AVX512=1 runs it"] * 2}
        assert levels_of_avx512() == unasked[cpu]
        for file in tmp_path.iterdir():
            file.unlink()
    monkeypatch.setattr(levels, "words", lambda: [0] * len(WORDS["amx"]))
    assert levels_of_avx512(emulate_avx512=True) == ["the CPU or system lacks avx2"] * 2


def test_a_level_without_modules_is_not_built_and_says_why(status, monkeypatch, tmp_path: Path):
    if "usable" not in status()["avx2"]:
        pytest.skip("this machine has no level above the portable one")
    for file in levels._MODULES.glob("*_portable.*.so"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(levels, "_MODULES", tmp_path)
    assert status()["avx2"] == "not built: its modules are not there"
    assert levels.available_levels() == ("portable",)
    (tmp_path / "left_out.json").write_text(json.dumps({"avx2": "cc: unrecognized option"}))
    assert status()["avx2"] == "not built: cc: unrecognized option"


def test_info_tells_which_levels_the_cap_excludes():
    done = subprocess.run([sys.executable, "-m", "poplibs_py", "info"], capture_output=True, text=True, check=True,
                          env={**os.environ, "POPLIBS_MAX_ISA": "portable", "POPLIBS_EMULATE_AMX": "1"})
    assert "amx_emulated above POPLIBS_MAX_ISA=portable" in done.stdout
