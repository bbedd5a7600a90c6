/* Integers and truth values as FP32 numbers, each rounded once to nearest even, or as wider integers, which hold them. */
#include "kernels/cast/cast.h"

#define POP_TO_FLOAT(X)                                                                                             \
    X(i8, float, int8_t, float, "int8->float32") X(u8, float, uint8_t, float, "uint8->float32")                     \
    X(i16, float, int16_t, float, "int16->float32") X(u16, float, uint16_t, float, "uint16->float32")               \
    X(i32, float, int32_t, float, "int32->float32") X(u32, float, uint32_t, float, "uint32->float32")               \
    X(i64, float, int64_t, float, "int64->float32") X(u64, float, uint64_t, float, "uint64->float32")
#define POP_TO_WIDER(X)                                                                                             \
    X(i8, 16, int8_t, int16_t, "int8->int16") X(i8, 32, int8_t, int32_t, "int8->int32")                             \
    X(i8, 64, int8_t, int64_t, "int8->int64") X(u8, 16, uint8_t, uint16_t, "uint8->int16|uint16")                   \
    X(u8, 32, uint8_t, uint32_t, "uint8->int32|uint32") X(u8, 64, uint8_t, uint64_t, "uint8->int64|uint64")         \
    X(i16, 32, int16_t, int32_t, "int16->int32") X(i16, 64, int16_t, int64_t, "int16->int64")                       \
    X(u16, 32, uint16_t, uint32_t, "uint16->int32|uint32") X(u16, 64, uint16_t, uint64_t, "uint16->int64|uint64")   \
    X(i32, 64, int32_t, int64_t, "int32->int64") X(u32, 64, uint32_t, uint64_t, "uint32->int64|uint64")
#define POP_TRUTH_TO(X)                                                                                             \
    X(bool, float, uint8_t, float, "bool->float32") X(bool, 8, uint8_t, uint8_t, "bool->int8|uint8")                \
    X(bool, 16, uint8_t, uint16_t, "bool->int16|uint16") X(bool, 32, uint8_t, uint32_t, "bool->int32|uint32")       \
    X(bool, 64, uint8_t, uint64_t, "bool->int64|uint64")

#define POP_WIDENER(value, suffix, to, from, type)                                                                  \
    static void pop_widen_##suffix##_##to(const pop_cast *cast, const void *codes, float *numbers, int64_t n)       \
    {                                                                                                               \
        const from *read = (const from *)codes;                                                                     \
        type *written = (type *)(void *)numbers;                                                                    \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) written[i] = (type)(value);                            \
        (void)cast;                                                                                                 \
    }
#define POP_WIDEN_NUMBER(suffix, to, from, type, formats) POP_WIDENER(read[i], suffix, to, from, type)
#define POP_WIDEN_TRUTH(suffix, to, from, type, formats) POP_WIDENER(read[i] != 0, suffix, to, from, type)
POP_TO_FLOAT(POP_WIDEN_NUMBER)
POP_TO_WIDER(POP_WIDEN_NUMBER)
POP_TRUTH_TO(POP_WIDEN_TRUTH)
