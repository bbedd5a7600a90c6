"""Decimal numbers of a text, read as fast as its bytes come: what MatrixMarket files are made of."""

from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0

cdef enum:
    MOST_DIGITS = 18  # of a 64-bit number whatever they are
    EXACT_POWER = 22  # 10^22 is the last power of ten that a double holds

cdef double[23] POWERS
POWERS[:] = [10.0**power for power in range(23)]


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c" " or (c"\t" <= c <= c"\r")


cdef inline bint is_digit(char c) noexcept nogil:
    return c"0" <= c <= c"9"


cdef const char *read_plain(const char *p, const char *end, double *number) noexcept nogil:
    """Read a number whose digits and power of ten doubles hold, so that one operation rounds it; NULL for others."""
    cdef bint minus = p < end and p[0] == c"-", minus_power = False
    cdef uint64_t digits = 0
    cdef int count = 0, after = 0, power = 0
    cdef bint point = False
    if p < end and (p[0] == c"-" or p[0] == c"+"):
        p += 1
    while p < end and (is_digit(p[0]) or (p[0] == c"." and not point)):
        if p[0] == c".":
            point = True
        else:
            digits = 10 * digits + <uint64_t>(p[0] - c"0")
            count += 1
            after += point
            if count > MOST_DIGITS:
                return NULL
        p += 1
    if not count or digits >> 53:
        return NULL
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        p += 1
        if p < end and (p[0] == c"-" or p[0] == c"+"):
            minus_power = p[0] == c"-"
            p += 1
        if p == end or not is_digit(p[0]):
            return NULL
        while p < end and is_digit(p[0]):
            power = 10 * power + (p[0] - c"0")
            if power > 4 * EXACT_POWER:
                return NULL
            p += 1
    power = (-power if minus_power else power) - after
    if p < end and not is_blank(p[0]) or not -EXACT_POWER <= power <= EXACT_POWER:
        return NULL
    number[0] = <double>digits * POWERS[power] if power >= 0 else <double>digits / POWERS[-power]
    if minus:
        number[0] = -number[0]
    return p


def read_numbers(bytes text, Py_ssize_t start, double[::1] numbers):
    """Read the numbers of a text, apart from lines that begin with a per cent sign, and return how many there are.

    Parameters
    ----------
    text : bytes
        Numbers in decimal, of any length, infinities and NaNs too, each rounded correctly; blanks between them.
    start : int
        Where they begin.
    numbers : numpy.ndarray of float64
        Where the first of them go: as many as there is room for.

    Raises
    ------
    ValueError
        For a word that is no number.
    """
    cdef const char *first = text
    cdef const char *p = first + min(max(start, 0), len(text))
    cdef const char *end = first + len(text)
    cdef const char *after
    cdef char *stop
    cdef double number = 0
    cdef Py_ssize_t found = 0, room = numbers.shape[0]
    cdef bint begins = True
    while True:
        while p < end and is_blank(p[0]):
            begins = begins or p[0] == c"\n" or p[0] == c"\r"
            p += 1
        if p == end:
            return found
        if begins and p[0] == c"%":
            while p < end and p[0] != c"\n" and p[0] != c"\r":
                p += 1
            continue
        begins = False
        after = read_plain(p, end, &number)
        if after == NULL:
            after = p
            while after < end and not is_blank(after[0]):
                after += 1
            stop = NULL
            try:
                number = PyOS_string_to_double(p, &stop, NULL)
            except ValueError:
                stop = NULL
            if stop != after:
                word = (<bytes>first[p - first:min(after - first, p - first + 40)]).decode(errors="replace")
                raise ValueError(f"{word!r} where numbers are due")
        if found < room:
            numbers[found] = number
        found += 1
        p = after
