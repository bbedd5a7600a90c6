"""Writes `coefficients.h` and `curve_tables.h` beside itself: the polynomials of `math.h`, and of `curves.h`.

Each is the polynomial of least greatest weighted error on its interval, on a fine grid; the weight
makes that the relative error of the function in which it is used. Values come from mpmath. Coefficients for float are
rounded one by one from the lowest, and those that remain are fitted anew after each, so that rounding costs little.
A curve is cut into 16 intervals with a polynomial each, about a place near the middle where the function is
all but a float. Its numbers stand there a second time by their bytes, for levels that look up many at once.

Run it with mpmath and NumPy at hand: ``python make_coefficients.py``. It prints the error of each fit in bits.
"""

import re
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 50
LN2 = mp.log(2)
GRID = 4000


def solve(basis, values, weights):
    """Coefficients of least greatest |weights * (basis @ c - values)|: least squares weighed anew, Lawson's rule."""
    lawson = np.full(len(values), 1 / len(values))
    best, least = None, np.inf
    for _ in range(300):
        scale = weights * np.sqrt(lawson)
        found = np.linalg.lstsq(basis * scale[:, None], values * scale, rcond=None)[0]
        errors = np.abs(weights * (basis @ found - values))
        if errors.max() < least:
            best, least = found, errors.max()
        lawson *= errors
        lawson /= lawson.sum()
    return best


def fit(function, low, high, degree, weight, dtype, inner=lambda x: x, grid=GRID):
    """Coefficients in inner(x), lowest first, as numbers of `dtype`, and the greatest weighted error."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    places = [middle - half * mp.cos(mp.pi * i / (grid - 1)) for i in range(grid)]
    weights = np.array([float(abs(weight(x))) for x in places])
    telling = weights > 1e-7 * weights.max()
    places, weights = [x for x, tells in zip(places, telling, strict=True) if tells], weights[telling]
    values = np.array([float(function(x)) for x in places])
    variable = np.array([float(inner(x)) for x in places])
    unit = np.abs(variable).max()
    powers = (variable[:, None] / unit) ** np.arange(degree + 1)
    kept, rest = np.zeros(degree + 1), values.copy()
    for k in range(degree + 1):
        found = solve(powers[:, k:], rest, weights)
        kept[k] = dtype(found[0] / unit**k)
        rest = rest - kept[k] * unit**k * powers[:, k]
        if dtype is np.float64 and k == 0:
            kept = found / unit ** np.arange(degree + 1)
            break
    return kept, np.abs(weights * (powers @ (kept * unit ** np.arange(degree + 1)) - values)).max()


def apart(x, value, series):
    """`value(x)`, or its limit at zero."""
    return mp.mpf(series) if x == 0 else value(x)


NEAR = LN2 / 2 * mp.mpf("1.0001")
LOW, HIGH = mp.sqrt(mp.mpf(1) / 2) - 1 - mp.mpf("1e-6"), mp.sqrt(2) - 1 + mp.mpf("1e-6")
QUARTER = mp.pi / 4 * mp.mpf("1.0001")
FLOAT, DOUBLE = np.float32, np.float64
INTERVALS, TERMS = 16, 6

FITS = {
    "EXP": ("e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2", FLOAT, 4, -NEAR, NEAR,
            lambda r: apart(r, lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5), lambda r: r * r / mp.exp(r)),
    "EXP2": ("2^r = 1 + r s(r), |r| <= 1/2", FLOAT, 5, -mp.mpf("0.5001"), mp.mpf("0.5001"),
             lambda r: apart(r, lambda r: (mp.power(2, r) - 1) / r, LN2), lambda r: r / mp.power(2, r)),
    "LOG": ("log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2)", FLOAT, 8, LOW, HIGH,
            lambda f: apart(f, lambda f: (mp.log1p(f) - f) / f**2, -0.5),
            lambda f: apart(f, lambda f: f * f / mp.log1p(f), 0)),
    "LOG2": ("log2(1 + f) = f + f q(f), sqrt(1/2) <= 1 + f <= sqrt(2)", FLOAT, 9, LOW, HIGH,
             lambda f: apart(f, lambda f: (mp.log1p(f) / LN2 - f) / f, 1 / LN2 - 1),
             lambda f: apart(f, lambda f: f * LN2 / mp.log1p(f), LN2)),
    "SINE": ("sin r = r + r^3 s(r^2), |r| <= pi/4", FLOAT, 2, mp.mpf(0), QUARTER,
             lambda r: apart(r, lambda r: (mp.sin(r) - r) / r**3, -mp.mpf(1) / 6),
             lambda r: apart(r, lambda r: r**3 / mp.sin(r), 0), lambda r: r * r),
    "COSINE": ("cos r = 1 + r^2 c(r^2), |r| <= pi/4", FLOAT, 3, mp.mpf(0), QUARTER,
               lambda r: apart(r, lambda r: (mp.cos(r) - 1) / r**2, -0.5), lambda r: r * r / mp.cos(r),
               lambda r: r * r),
    "EXPM1": ("e^r - 1 = r + r^2 q(r), |r| <= ln 2 / 2", DOUBLE, 5, -NEAR, NEAR,
              lambda r: apart(r, lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5),
              lambda r: apart(r, lambda r: r * r / mp.expm1(r), 0)),
    "LOG1P": ("log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2)", DOUBLE, 9, LOW, HIGH,
              lambda f: apart(f, lambda f: (mp.log1p(f) - f) / f**2, -0.5),
              lambda f: apart(f, lambda f: f * f / mp.log1p(f), 0)),
    "LOG1P_FINE": ("log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2)", DOUBLE, 12, LOW, HIGH,
                   lambda f: apart(f, lambda f: (mp.log1p(f) - f) / f**2, -0.5),
                   lambda f: apart(f, lambda f: f * f / mp.log1p(f), 0)),
    "SIN": ("sin r = r + r^3 s(r^2), |r| <= pi/4", DOUBLE, 3, mp.mpf(0), QUARTER,
            lambda r: apart(r, lambda r: (mp.sin(r) - r) / r**3, -mp.mpf(1) / 6),
            lambda r: apart(r, lambda r: r**3 / mp.sin(r), 0), lambda r: r * r),
    "COS": ("cos r = 1 + r^2 c(r^2), |r| <= pi/4", DOUBLE, 3, mp.mpf(0), QUARTER,
            lambda r: apart(r, lambda r: (mp.cos(r) - 1) / r**2, -0.5), lambda r: r * r / mp.cos(r), lambda r: r * r),
    "ATAN": ("atan t = t + t^3 a(t^2), 0 <= t <= 1", DOUBLE, 10, mp.mpf(0), mp.mpf(1),
             lambda t: apart(t, lambda t: (mp.atan(t) - t) / t**3, -mp.mpf(1) / 3),
             lambda t: apart(t, lambda t: t**3 / mp.atan(t), 0), lambda t: t * t),
    "ASIN": ("asin t = t + t^3 a(t^2), 0 <= t <= 1/2", DOUBLE, 6, mp.mpf(0), mp.mpf("0.5001"),
             lambda t: apart(t, lambda t: (mp.asin(t) - t) / t**3, mp.mpf(1) / 6),
             lambda t: apart(t, lambda t: t**3 / mp.asin(t), 0), lambda t: t * t),
}


def all_but_float(function, low, high):
    """A float near the middle where the function is nearest to a float, and that float."""
    def distance(place):
        value = function(mp.mpf(float(place)))
        return abs((value - float(FLOAT(float(value)))) / value)

    middle, width = float(low + high) / 2, float(high - low)
    centre = min((FLOAT(middle + width * k * 2.0**-13) for k in range(-200, 201)), key=distance)
    return centre, FLOAT(float(function(mp.mpf(float(centre)))))


def offset(function):
    """`function` less its argument, where the argument itself is added to it."""
    return lambda t: function(t) - t


def mills(t):
    """t e^(t^2/2) P(Z > t)."""
    return t * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2


def beyond(t):
    """t P(Z > t)."""
    return t * mp.erfc(t / mp.sqrt(2)) / 2


def bent(t):
    """t P(Z > t), less t / 2."""
    return -t * mp.erf(t / mp.sqrt(2)) / 2


def falling(t):
    """1 / (1 + e^t)."""
    return 1 / (1 + mp.exp(t))


def gated(t):
    """t / (1 + e^t)."""
    return t / (1 + mp.exp(t))


def gated_near(t):
    """t / (1 + e^t), less t / 2."""
    return -t * mp.tanh(t / 2) / 2


def cubic(t):
    """sqrt(2 / pi) (t + 0.044715 t^3)."""
    return mp.sqrt(2 / mp.pi) * (t + mp.mpf("0.044715") * t**3)


# What it is; the function; the greatest argument; how many first intervals have another function, and that; slope and
# start of the line that counts intervals, four to an octave from 1 to 16 or sixteen from 1 to 2; and of a wide curve,
# which has eight to an octave from 2 to 32, the function from 8 on. See pop_curve.
CURVES = {
    "TANH": ("tanh t, 0 <= t <= 9.2; in the first interval less t", mp.tanh, 9.2, 1, offset(mp.tanh), 1.625, 1.0),
    "ERF": ("erf t, 0 <= t <= 4; in the first interval less t", mp.erf, 4.0, 1, offset(mp.erf), 3.7421875, 1.0),
    "GELU": ("t P(Z > t), 0 <= t <= 17.4; in the first four intervals less t / 2, in the last sixteen over e^(-t^2/2)",
             beyond, 17.4, 4, bent, 1.71484375, 2.0, mills),
    "SILU": ("t / (1 + e^t), 0 <= t <= 8; in the first interval less t / 2", gated, 8.0, 1, gated_near,
             0.12451171875, 1.0),
    "GELU_TANH": ("t / (1 + e^2z), z = sqrt(2 / pi) (t + 0.044715 t^3), 0 <= t <= 3.5; in the first two intervals "
                  "less t / 2",
                  lambda t: t / (1 + mp.exp(2 * cubic(t))), 3.5, 2, lambda t: -t * mp.tanh(cubic(t)) / 2,
                  0.28515625, 1.0),
    "SIGMOID": ("1 / (1 + e^t), 0 <= t <= 10.4", falling, 10.4, 0, None, 0.09609375, 1.0),
}  # fmt: skip


def fit_curve(function, top, few, other, slope, start, far=None):
    """Columns of centres, values there and coefficients, of all intervals; the greatest error; the shift."""
    step = 8 if far else 4 if slope * top + start >= 2 else 16
    intervals, first = (2 * INTERVALS, step) if far else (INTERVALS, 0)
    columns, worst = np.zeros((2 + TERMS, intervals)), 0.0
    for i in range(intervals):
        lines = (2.0 ** (k // step) * (1 + k % step / step) for k in (first + i, first + i + 1))
        low, high = (mp.mpf(max(0, min(top, (line - start) / slope))) for line in lines)
        whole = far if i >= INTERVALS else function
        used = other if i < few else whole
        centre, value = (FLOAT(0), FLOAT(0)) if low == used(low) == 0 else all_but_float(used, low, high)
        middle, height = mp.mpf(float(centre)), mp.mpf(float(value))
        found, error = fit(
            lambda d, f=used, m=middle, h=height: (f(m + d) - h) / d if abs(d) > 1e-15 else mp.diff(f, m),
            low - middle, high - middle, TERMS - 1,
            lambda d, f=whole, m=middle: apart(m + d, lambda t: (t - m) / f(t), 1), FLOAT, grid=GRID // 10)  # fmt: skip
        columns[:, (i + 3 * (step - first)) % intervals] = centre, value, *found
        worst = max(worst, error)
    return columns, worst, {4: 21, 8: 20, 16: 19}[step]


def rows(numbers, suffix=""):
    """Lines of four numbers of an initializer."""
    texts = [re.sub(r"\.?0*p", "p", float(c).hex()) + suffix for c in numbers]
    return ["    " + ", ".join(texts[i:i + 4]) + "," for i in range(0, len(texts), 4)]


def planes(column):
    """Lines of the bytes of each 16 numbers of a row: the lowest of each, the second, and so on."""
    parts = np.asarray(column, np.float32).reshape(-1, INTERVALS).view(np.uint8).reshape(-1, INTERVALS, 4)
    lines = []
    for part in parts:
        first, *more, last = (", ".join(map(str, plane)) for plane in part.T)
        lines += ["    {{{" + first + "},", *("      {" + plane + "}," for plane in more), "      {" + last + "}}},"]
    return lines


def write(name, remark, lines):
    """Write a header beside this file."""
    guard = f"POP_SIMD_{name.upper()}_H"
    top = [f"/* Written by make_coefficients.py, which says how.{remark} */", f"#ifndef {guard}",
           f"#define {guard}", ""]
    (Path(__file__).parent / f"{name}.h").write_text("\n".join([*top, *lines, "#endif", ""]))


def told(name, error):
    """The error of a fit in bits, printed."""
    bits = float(np.log2(error))
    print(f"{name:10}{bits:8.2f}")
    return f"{bits:.1f}"


def coefficients():
    """Lines of the polynomials."""
    lines = []
    for name, (meaning, dtype, degree, low, high, function, weight, *inner) in FITS.items():
        numbers, error = fit(function, low, high, degree, weight, dtype, *inner)
        kind, suffix = ("float", "f") if dtype is FLOAT else ("double", "")
        lines += [f"/* {meaning}; within 2^{told(name, error)} */",
                  f"static const {kind} POP_FIT_{name}[{degree + 1}] = {{", *rows(numbers, suffix), "};", ""]
    return lines


def curve_tables():
    """Lines of the curves, and of their bytes."""
    lines = []
    for name, (meaning, function, top, few, other, slope, start, *wide) in CURVES.items():
        columns, error, shift = fit_curve(function, top, few, other, slope, start, *wide)
        kind = "pop_wide_curve" if wide else "pop_curve"
        lines += [f"/* {meaning}; within 2^{told(name, error)} */",
                  f"static const {kind} POP_CURVE_{name} = {{{slope}f, {start}f, {top}f, {shift}, {{"]
        for column in columns:
            lines += ["    {", *("    " + row for row in rows(column, "f")), "    },"]
        lines += ["}};", "#ifdef POP_HAS_LOOKUP_FOUR",
                  f"static const pop_planes POP_PLANES_{name}[{columns.size // INTERVALS}] = {{"]
        for column in columns:
            lines += planes(column)
        lines += ["};", "#endif", ""]
    return lines


if __name__ == "__main__":
    write("coefficients", " Lowest first.", coefficients())
    write("curve_tables", "", curve_tables())
