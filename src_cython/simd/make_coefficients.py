"""Writes `coefficients.h` beside itself: the polynomials of `math.h`.

Each is the polynomial of least greatest weighted error on its interval, on a fine grid; the weight
makes that the relative error of the function in which it is used. Values come from mpmath. Coefficients for float are
rounded one by one from the lowest, and those that remain are fitted anew after each, so that rounding costs little.

Run it with mpmath and NumPy at hand: ``python make_coefficients.py``. It prints the error of each fit in bits.
"""

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


def fit(function, low, high, degree, weight, dtype, inner=lambda x: x):
    """Coefficients in inner(x), lowest first, as numbers of `dtype`, and the greatest weighted error."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    places = [middle - half * mp.cos(mp.pi * i / (GRID - 1)) for i in range(GRID)]
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


def normal_tail(t):
    """e^(t^2/2) P(Z > t)."""
    return mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2


NEAR = LN2 / 2 * mp.mpf("1.0001")
LOW, HIGH = mp.sqrt(mp.mpf(1) / 2) - 1 - mp.mpf("1e-6"), mp.sqrt(2) - 1 + mp.mpf("1e-6")
QUARTER = mp.pi / 4 * mp.mpf("1.0001")
TAIL = 3  # the tail's variable is 1 / (t + TAIL)
ERF_JOIN = mp.mpf("0.875")
FLOAT, DOUBLE = np.float32, np.float64

FITS = {
    "EXP": ("e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2", FLOAT, 4, -NEAR, NEAR,
            lambda r: apart(r, lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5), lambda r: r * r / mp.exp(r)),
    "EXP2": ("2^r = 1 + r s(r), |r| <= 1/2", FLOAT, 5, -mp.mpf("0.5001"), mp.mpf("0.5001"),
             lambda r: apart(r, lambda r: (mp.power(2, r) - 1) / r, LN2), lambda r: r / mp.power(2, r)),
    "LOG": ("log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2)", FLOAT, 8, LOW, HIGH,
            lambda f: apart(f, lambda f: (mp.log1p(f) - f) / f**2, -0.5),
            lambda f: apart(f, lambda f: f * f / mp.log1p(f), 0)),
    "ERF_NEAR": ("erf(x) = x + x p(x^2), |x| <= 7/8", FLOAT, 6, mp.mpf(0), ERF_JOIN,
                 lambda x: apart(x, lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1),
                 lambda x: apart(x, lambda x: x / mp.erf(x), mp.sqrt(mp.pi) / 2), lambda x: x * x),
    "ERF_FAR": ("1 - erf(7/8 + u) = 2^(-2 - q(u)), 0 <= u <= 25/8", FLOAT, 7, mp.mpf(0), 4 - ERF_JOIN,
                lambda u: -2 - mp.log(mp.erfc(ERF_JOIN + u), 2),
                lambda u: mp.erfc(ERF_JOIN + u) / mp.erf(ERF_JOIN + u)),
    "EXPM1": ("e^r - 1 = r + r^2 q(r), |r| <= ln 2 / 2", DOUBLE, 5, -NEAR, NEAR,
              lambda r: apart(r, lambda r: (mp.exp(r) - 1 - r) / r**2, 0.5),
              lambda r: apart(r, lambda r: r * r / mp.expm1(r), 0)),
    "LOG1P": ("log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2)", DOUBLE, 9, LOW, HIGH,
              lambda f: apart(f, lambda f: (mp.log1p(f) - f) / f**2, -0.5),
              lambda f: apart(f, lambda f: f * f / mp.log1p(f), 0)),
    "SIN": ("sin r = r + r^3 s(r^2), |r| <= pi/4", DOUBLE, 3, mp.mpf(0), QUARTER,
            lambda r: apart(r, lambda r: (mp.sin(r) - r) / r**3, -mp.mpf(1) / 6),
            lambda r: apart(r, lambda r: r**3 / mp.sin(r), 0), lambda r: r * r),
    "COS": ("cos r = 1 + r^2 c(r^2), |r| <= pi/4", DOUBLE, 3, mp.mpf(0), QUARTER,
            lambda r: apart(r, lambda r: (mp.cos(r) - 1) / r**2, -0.5), lambda r: r * r / mp.cos(r), lambda r: r * r),
    "TAIL": ("P(Z > t) = e^(-t^2/2) y p(y), y = 1 / (t + 3), 0 <= t <= 14.5", DOUBLE, 10, mp.mpf(0), mp.mpf("14.5"),
             lambda t: normal_tail(t) * (t + TAIL), lambda t: 1 / (normal_tail(t) * (t + TAIL)),
             lambda t: 1 / (t + TAIL)),
}


def main():
    """Fit all and write the header."""
    lines = ["/* Written by make_coefficients.py, which says how. Lowest first. */", "#ifndef POP_SIMD_COEFFICIENTS_H",
             "#define POP_SIMD_COEFFICIENTS_H", ""]
    for name, (meaning, dtype, degree, low, high, function, weight, *inner) in FITS.items():
        numbers, error = fit(function, low, high, degree, weight, dtype, *inner)
        bits = float(np.log2(error))
        print(f"{name:10}{bits:8.2f}")
        kind, suffix = ("float", "f") if dtype is FLOAT else ("double", "")
        digits = "0000000p" if dtype is FLOAT else "p"
        texts = [float(c).hex().replace(digits, "p") + suffix for c in numbers]
        lines += [f"/* {meaning}; within 2^{bits:.1f} */", f"static const {kind} POP_FIT_{name}[{degree + 1}] = {{"]
        lines += ["    " + ", ".join(texts[i:i + 4]) + "," for i in range(0, len(texts), 4)] + ["};", ""]
    (Path(__file__).parent / "coefficients.h").write_text("\n".join([*lines, "#endif", ""]))


if __name__ == "__main__":
    main()
