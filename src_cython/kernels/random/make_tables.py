"""Writes `tables.h` and `aox_powers.h` beside itself: inverse distribution functions, and x^(2^k).

An inverse distribution function F is wanted at q in (0, 1), down to q = 2^-31. On each octave
2^e <= 2^31 q < 2^(e+1) it is a polynomial of degree 7 in t = m - 3/2, where m in [1, 2) is the significand of
2^31 q: interpolation at Chebyshev points in float64, then the coefficients rounded to float32. F has its
singularities at q = 0 and beyond q = 1, three half-widths or more from an octave's centre, so eight terms reach
float32's own rounding.

Run it with SciPy at hand: ``python make_tables.py``.
"""

from pathlib import Path

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erfinv, ndtri

DEGREE = 7
MODULUS = 0x00653CED7F29F88A << 64 | 0x5FD66762F0E1C001
CAST_SUBSTREAM = 0xCA57

# Upper tail: the value whose distance from the median's side is q/2. Lower and upper halves of the skewed distributions
# are tables of their own, so that both tails keep their relative precision.
QUANTILES = {
    "NORMAL": (lambda q: -ndtri(q / 2), "the normal distribution's upper half: P(Z > F) = q/2"),
    "EXPONENTIAL_LOW": (lambda q: -np.log1p(-q / 2), "the exponential's lower half: P(E < F) = q/2"),
    "EXPONENTIAL_HIGH": (lambda q: -np.log(q / 2), "the exponential's upper half: P(E > F) = q/2"),
    "GUMBEL_LOW": (lambda q: -np.log(-np.log(q / 2)), "Gumbel's lower half: P(G < F) = q/2"),
    "GUMBEL_HIGH": (lambda q: -np.log(-np.log1p(-q / 2)), "Gumbel's upper half: P(G > F) = q/2"),
}


def fit(function, low, high, degree):
    """Coefficients, lowest first, in x - (low + high)/2."""
    nodes = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    middle, half = (low + high) / 2, (high - low) / 2
    series = chebyshev.chebfit(nodes, function(middle + half * nodes), degree)
    powers = chebyshev.cheb2poly(series)
    powers = np.concatenate([powers, np.zeros(degree + 1 - len(powers))])
    return (powers / half ** np.arange(degree + 1)).astype(np.float32)


def octaves(function):
    """Table [coefficient][octave]; octave e stands where a float's exponent field, 127 + e, is taken modulo 32."""
    table = np.zeros((DEGREE + 1, 32), np.float32)
    for e in range(31):
        table[:, (127 + e) % 32] = fit(lambda m, e=e: function(m * 2.0 ** (e - 31)), 1, 2, DEGREE)
    return table


def c_floats(values, indent=4):
    """C literals, six to a line."""
    texts = [f"{float(v).hex()}f" for v in values]
    return "\n".join(" " * indent + ", ".join(texts[i:i + 6]) + "," for i in range(0, len(texts), 6))


def tables():
    """Text of tables.h."""
    lines = ["/* Written by make_tables.py, which says what the numbers are. */", "#ifndef POP_RANDOM_TABLES_H",
             "#define POP_RANDOM_TABLES_H", "", f"#define POP_R_DEGREE {DEGREE}", ""]
    for name, (function, meaning) in QUANTILES.items():
        lines += [f"/* {meaning} */", f"static const float POP_R_{name}[{DEGREE + 1}][32] = {{"]
        for row in octaves(function):
            lines += ["  {", c_floats(row), "  },"]
        lines += ["};", ""]
    centre = fit(lambda s: np.sqrt(2 / s) * erfinv(np.sqrt(s)), 0, 0.25, DEGREE)
    lines += ["/* The normal distribution near its centre: P(|Z| < z) = y, z = y P(y^2 - 1/8), y <= 1/2 */",
              f"static const float POP_R_CENTRE[{DEGREE + 1}] = {{", c_floats(centre), "};", ""]
    lines += ["#endif", ""]
    return "\n".join(lines)


def multiply(a, b):
    """Product of two polynomials over GF(2) modulo the characteristic polynomial."""
    product = 0
    for i in range(127, -1, -1):
        product <<= 1
        if product >> 128:
            product ^= 1 << 128 | MODULUS
        if b >> i & 1:
            product ^= a
    return product


def powers():
    """Text of aox_powers.h."""
    lines = ["/* x^(2^k) modulo the characteristic polynomial of xoroshiro128's step with 55/14/36, k = 0 .. 127:",
             " * low word, high word. Written by make_tables.py. */", "#ifndef POP_RANDOM_AOX_POWERS_H",
             "#define POP_RANDOM_AOX_POWERS_H", "#include <stdint.h>", "",
             "static const uint64_t POP_AOX_POWERS[128][2] = {"]
    x = 2
    for _ in range(128):
        lines.append(f"    {{{x & (1 << 64) - 1:#018x}, {x >> 64:#018x}}},")
        x = multiply(x, x)
    lines += ["};", "", "/* Bit l of entry i: the coefficient of x^i in x^(l 2^64), the jump from lane 0 to lane l. */",
              "static const uint16_t POP_AOX_FAN_OUT[128] = {", *fan_out(1), "};", "",
              f"/* The same in substream {CAST_SUBSTREAM:#x}, that of casts: other numbers from the same seed. */",
              "static const uint16_t POP_AOX_CAST_FAN_OUT[128] = {",
              *fan_out(power(CAST_SUBSTREAM << 80)), "};", "#endif", ""]
    return "\n".join(lines)


def power(n):
    """x^n."""
    product, square = 1, 2
    while n:
        if n & 1:
            product = multiply(product, square)
        square, n = multiply(square, square), n >> 1
    return product


def fan_out(first):
    """Lines of a table of the jumps from a place to that of each lane, `first` being the jump to lane 0."""
    lanes, jump = [first], power(1 << 64)
    for _ in range(15):
        lanes.append(multiply(lanes[-1], jump))
    masks = [sum((lane >> i & 1) << n for n, lane in enumerate(lanes)) for i in range(128)]
    return ["    " + " ".join(f"{mask:#06x}," for mask in masks[i:i + 8]) for i in range(0, 128, 8)]


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "tables.h").write_text(tables())
    (here / "aox_powers.h").write_text(powers())
