"""Writes `power_tables.h` beside itself: what powers need of base-2 logarithms and exponentials.

A significand m, 0.711 <= m < 1.422, is in one of 32 intervals by the leading bits of its distance from the least. Of
each there is c, near 1/m, with so few bits that r = m c - 1 is exact in float32 (a multiple of 2^-29, |r| < 2^-5), and
-log2 c in two parts, the first a multiple of 2^-16, so that its sum with an exponent is exact. About m = 1 c is 1, and
both parts are 0. A polynomial is (log(1 + r) - r + r^2 / 2) / r^3: interpolation at Chebyshev points, in float32.

2^(k/16) is a float32 number, of which k 2^19 is taken as of a word, so that a word of n 2^23 + k 2^19 makes it
2^(n + k/16); and what has to be added for each unit of it. A polynomial is (2^r - 1) / r, |r| <= 1/32.

For powers that are rounded to BF16: -log2 c in one part, and log2(1 + r) / r.

Run it with NumPy at hand: ``python make_power.py``.
"""

from pathlib import Path

import numpy as np
from numpy.polynomial import chebyshev

LEAST = 0x3F360000
"""The bits of the least significand: 18 and a half intervals below 1."""


def interval(k):
    """The ends of an interval."""
    return np.array([LEAST + (k << 18), LEAST + ((k + 1) << 18)], np.int32).view(np.float32).astype(float)


def reciprocal(k):
    """c: of 1/64 below 1, of 1/32 above."""
    low, high = interval(k)
    if low < 1 < high:
        return 1.0
    step = 64 if low >= 1 else 32
    c = round(step * 2 / (low + high)) / step
    assert max(abs(low * c - 1), abs(high * c - 1)) < 2.0**-5
    return c


def logarithm(r):
    """(log(1 + r) - r + r^2 / 2) / r^3."""
    return sum((-r) ** k / (k + 3) for k in range(24))


def short_logarithm(r):
    """log2(1 + r) / r."""
    return np.log1p(r) / r / np.log(2)


def exponential(r):
    """(2^r - 1) / r."""
    return np.expm1(r * np.log(2)) / r


def polynomial(function, half, terms):
    """Coefficients, lowest first."""
    nodes = half * np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    fitted = chebyshev.cheb2poly(chebyshev.chebfit(nodes / half, function(nodes), terms - 1))
    return fitted / half ** np.arange(terms)


def text(numbers):
    """Lines of a C initialiser."""
    words = [f"{float(np.float32(x)).hex()}f".replace("0000000p", "p") for x in numbers]
    return "".join("    " + ", ".join(words[i:i + 6]) + ",\n" for i in range(0, len(words), 6))


def main():
    """Write the header."""
    c = [reciprocal(k) for k in range(32)]
    logs = [-np.log2(np.longdouble(x)) for x in c]
    high = [float(np.round(x * 65536) / 65536) for x in logs]
    low = [float(x - h) for x, h in zip(logs, high, strict=True)]
    width = max(abs(end * x - 1) for k, x in enumerate(c) for end in interval(k))
    parts = {"POP_POWER_INVERSE[32]": c, "POP_POWER_HIGH[32]": high, "POP_POWER_LOW[32]": low,
             "POP_POWER_REST[4]": polynomial(logarithm, width, 4),
             "POP_POWER_SHORT_LOG[32]": logs, "POP_POWER_SHORT_REST[4]": polynomial(short_logarithm, width, 4)}
    roots = np.exp2(np.arange(16, dtype=np.longdouble) / 16)
    rounded = roots.astype(np.float32)
    words = rounded.view(np.int32) - (np.arange(16, dtype=np.int32) << 19)
    parts |= {"POP_POWER_ROOT[16]": words.view(np.float32), "POP_POWER_LOST[16]": roots / rounded - 1,
              "POP_POWER_CURVE[3]": polynomial(exponential, 1 / 32, 3)}
    lines = [f"static const float {name} = {{\n{text(numbers)}}};\n" for name, numbers in parts.items()]
    head = "/* Written by make_power.py, which says what these are. */\n"
    (Path(__file__).parent / "power_tables.h").write_text(f"{head}#define POP_POWER_LEAST {LEAST:#x}\n{''.join(lines)}")


if __name__ == "__main__":
    main()
