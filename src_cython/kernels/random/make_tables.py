"""Writes `tables.h` beside itself: inverse distribution functions.

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


if __name__ == "__main__":
    (Path(__file__).parent / "tables.h").write_text(tables())
