"""The text of ``aox_powers.h``, which the build writes: x^(2^k) for jumps of xoroshiro128, and from lane to lane."""

MODULUS = 0x00653CED7F29F88A << 64 | 0x5FD66762F0E1C001
CAST_SUBSTREAM = 0xCA57


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
             " * low word, high word. Written by make_powers.py. */", "#ifndef POP_RANDOM_AOX_POWERS_H",
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
