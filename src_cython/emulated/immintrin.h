/* The intrinsics of AVX-512 (F, BW, DQ, VL, VBMI, BF16) that the kernels use, as loops over lanes: a build with
 * POPLIBS_BUILD_EMULATED_AVX512=1 finds this file before GCC's own, whose AVX-512 parts it leaves out, so that CPUs with AVX2
 * alone run these levels' kernels in tests.
 *
 * Each function does as Intel's manual writes the operation. Three things show mistakes: upper halves that a cast leaves
 * undefined are NaN, masked moves touch no masked byte, and aligned moves abort where they would fault. What is missing for a
 * kernel is a line or two in the file of its kind. */
#ifndef POP_EMULATED_IMMINTRIN_H
#define POP_EMULATED_IMMINTRIN_H
#define _AVX5124FMAPSINTRIN_H_INCLUDED
#define _AVX5124VNNIWINTRIN_H_INCLUDED
#define _AVX512BF16INTRIN_H_INCLUDED
#define _AVX512BF16VLINTRIN_H_INCLUDED
#define _AVX512BITALGINTRIN_H_INCLUDED
#define _AVX512BWINTRIN_H_INCLUDED
#define _AVX512CDINTRIN_H_INCLUDED
#define _AVX512DQINTRIN_H_INCLUDED
#define _AVX512ERINTRIN_H_INCLUDED
#define _AVX512FINTRIN_H_INCLUDED
#define __AVX512FP16INTRIN_H_INCLUDED
#define __AVX512FP16VLINTRIN_H_INCLUDED
#define _AVX512IFMAINTRIN_H_INCLUDED
#define _AVX512IFMAVLINTRIN_H_INCLUDED
#define _AVX512PFINTRIN_H_INCLUDED
#define __AVX512VBMI2INTRIN_H_INCLUDED
#define _AVX512VBMI2VLINTRIN_H_INCLUDED
#define _AVX512VBMIINTRIN_H_INCLUDED
#define _AVX512VBMIVLINTRIN_H_INCLUDED
#define _AVX512VLBWINTRIN_H_INCLUDED
#define _AVX512VLDQINTRIN_H_INCLUDED
#define _AVX512VLINTRIN_H_INCLUDED
#define __AVX512VNNIINTRIN_H_INCLUDED
#define _AVX512VNNIVLINTRIN_H_INCLUDED
#define _AVX512VP2INTERSECTINTRIN_H_INCLUDED
#define _AVX512VP2INTERSECTVLINTRIN_H_INCLUDED
#define _AVX512VPOPCNTDQINTRIN_H_INCLUDED
#define _AVX512VPOPCNTDQVLINTRIN_H_INCLUDED
#define __VAESINTRIN_H_INCLUDED
#define _VPCLMULQDQINTRIN_H_INCLUDED
#define _GFNIINTRIN_H_INCLUDED
#include_next <immintrin.h>

#include "arithmetic.h"
#include "conversions.h"
#include "lanes.h"
#include "masks.h"
#include "moves.h"
#include "permutations.h"
#endif
