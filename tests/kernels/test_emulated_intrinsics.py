"""The loops that stand in place of AVX-512's instructions in test builds give what the instructions give."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from poplibs_py.kernels import _cpu

LOOPS = Path(__file__).parents[2] / "src_cython" / "emulated"
ROUNDS = 300

# Of bits i, j, k, numbers f, g, h, doubles d and e, a mask m and memory at p, where 64 bytes may be written.
BITS = """
_mm512_and_ps(f, g)
_mm512_castsi512_si256(_mm512_mask_add_epi8(i, m, j, k))
_mm512_cmpgt_epi16_mask(i, j)
_mm512_cmple_epu8_mask(i, j)
_mm512_cvtepi32_epi8(i)
_mm512_cvtne2ps_pbh(f, g)
_mm512_cvtneps_pbh(f)
_mm512_cvtusepi64_epi32(i)
_mm512_fpclass_ps_mask(f, 0x99)
_mm512_fpclass_ps_mask(f, 0x66)
_mm512_inserti64x4(i, _mm512_castsi512_si256(j), 1)
_mm512_madd_epi16(i, j)
_mm512_mask_expand_epi32(i, (__mmask16)m, j)
_mm512_mask_loadu_epi8(i, m, p)
_mm512_mask_mov_epi16(i, (__mmask32)m, j)
_mm512_maskz_compress_epi32((__mmask16)m, i)
_mm512_maskz_compress_epi64((__mmask8)m, i)
_mm512_maskz_loadu_epi16((__mmask32)m, p)
_mm512_max_epi16(i, j)
_mm512_min_epu64(i, j)
_mm512_permutex2var_epi8(i, j, k)
_mm512_permutex2var_ps(f, j, g)
_mm512_permutexvar_epi16(i, j)
_mm512_range_ps(f, g, 3)
_mm512_reduce_min_epu32(i)
_mm512_rol_epi64(i, 13)
_mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
_mm512_shuffle_i64x2(i, j, 0x9c)
_mm512_shuffle_ps(f, g, 0x9c)
_mm512_sllv_epi32(i, _mm512_cvtepu8_epi32(_mm512_cvtepi32_epi8(j)))
_mm512_srai_epi16(i, 3)
_mm512_ternarylogic_epi32(i, j, k, 0xca)
_mm512_test_epi8_mask(i, j)
_mm512_unpackhi_epi16(i, j)
_mm512_unpacklo_ps(f, g)
(_mm512_mask_storeu_epi8(p, m, i), _mm512_loadu_si512(p))
(_mm512_mask_storeu_epi32(p, (__mmask16)m, i), _mm512_loadu_si512(p))
""".strip().splitlines() + [f"_mm512_cmp_{kind}_mask({pair}, {how})" for how in range(32)
                            for kind, pair in (("ps", "f, g"), ("pd", "d, e"))]
NUMBERS = """
_mm512_cvtpd_ps(d)
_mm512_cvtph_ps(_mm512_castsi512_si256(i))
_mm512_dpbf16_ps(f, (__m512bh)i, (__m512bh)j)
_mm512_dpbf16_ps(f, (__m512bh)g, (__m512bh)h)
_mm512_fmadd_ps(f, g, h)
_mm512_max_ps(f, g)
_mm512_min_ps(f, g)
_mm512_reduce_ps(f, 1)
_mm512_roundscale_ps(f, 8)
_mm512_roundscale_ps(f, 11)
_mm512_scalef_ps(f, g)
_mm512_sqrt_ps(f)
_mm512_sub_ps(f, g)
""".strip().splitlines()

PROGRAM = """
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define SHOW(e) do { const __typeof__(e) r = e; fwrite(&r, sizeof r, 1, stdout); } while (0)
int main(void)
{
    struct { __m512i i, j, k; __m512 f, g, h; __m512d d, e; char p[64]; uint64_t m[8]; } in;
    while (fread(&in, sizeof in, 1, stdin)) {
        const __m512i i = in.i, j = in.j, k = in.k;
        const __m512 f = in.f, g = in.g, h = in.h;
        const __m512d d = in.d, e = in.e;
        const uint64_t m = in.m[0];
        char *p = in.p;
        (void)k, (void)h, (void)e, (void)p, (void)m;
%s
    }
    return 0;
}
"""


def operands() -> bytes:
    """As the program reads them: any bits, numbers of any size and of a few sizes, and what is no number."""
    rng = np.random.default_rng(1)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 0.5, -0.5, 1.5, -1e-9, 3e38], np.float32)
    made = []
    for _ in range(ROUNDS):
        bits = rng.integers(0, 2**32, (3, 16), dtype=np.uint32)
        numbers = (rng.standard_normal((3, 16)) * 2.0 ** rng.integers(-12, 12, (3, 16))).astype(np.float32)
        numbers = np.where(rng.random((3, 16)) < 0.3, rng.choice(ends, (3, 16)), numbers)
        doubles = np.where(rng.random((2, 8)) < 0.5, numbers[:2, :8], rng.standard_normal((2, 8)))
        made += [bits, numbers, doubles, rng.bytes(64), rng.bytes(64)]
    return b"".join(part if isinstance(part, bytes) else part.tobytes() for part in made)


def program(folder: Path, expressions: list[str], flags: list[str]) -> Path:
    """Compile what prints the expressions' values for operands that it reads."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not shutil.which(compiler[0]):
        pytest.skip("no compiler")
    if "clang" in subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("the loops stand before GCC's header")
    source = folder / "program.c"
    source.write_text(PROGRAM % "\n".join(f"        SHOW(({expression}));" for expression in expressions))
    made = folder / f"program{len(flags)}"
    subprocess.run([*compiler, "-std=gnu11", "-O1", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unused-function",
                    "-Wno-psabi", *flags, str(source), "-o", str(made), "-lm"], check=True)
    return made


def values(made: Path) -> np.ndarray:
    """What a program prints: a row of bytes for each round."""
    printed = subprocess.run([made], input=operands(), capture_output=True, check=True).stdout
    assert len(printed) % ROUNDS == 0
    return np.frombuffer(printed, np.uint8).reshape(ROUNDS, -1)


@pytest.mark.skipif("avx2" not in _cpu.levels(_cpu.words()), reason="the loops want AVX2")
@pytest.mark.parametrize("expressions", [BITS, NUMBERS], ids=["bits", "numbers"])
def test_loops_give_what_instructions_give(expressions: list[str], tmp_path: Path) -> None:
    in_loops = program(tmp_path, expressions, ["-march=x86-64-v3", f"-I{LOOPS}"])
    instructions = program(tmp_path, expressions, ["-march=x86-64-v4", "-mavx512bf16", "-mavx512vbmi"])
    emulated = values(in_loops)
    if "avx512_bf16" not in _cpu.levels(_cpu.words()):
        pytest.skip("the CPU lacks the instructions: both programs were compiled, the one with loops was run")
    real = values(instructions)
    assert emulated.shape == real.shape
    if expressions is NUMBERS:  # any NaN for any other: its sign and payload follow the order of operands
        emulated, real = (np.where(np.isnan(x), np.float32(np.nan), x).view(np.uint8)
                          for x in (emulated.view(np.float32), real.view(np.float32)))
    np.testing.assert_array_equal(emulated, real)
