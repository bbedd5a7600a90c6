"""Arithmetic of whole numbers, for every compiled module."""

from libc.stdint cimport int64_t


cdef inline int64_t cdiv(int64_t a, int64_t b) noexcept nogil:
    """Ceil of a / b, both non-negative."""
    return (a + b - 1) // b


cdef inline int64_t imax(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b


cdef inline int64_t imin(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


cdef inline int64_t gcd(int64_t a, int64_t b) noexcept nogil:
    while b:
        a, b = b, a % b
    return a
