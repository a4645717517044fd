// Eight floats at a time in the compiler's own vector type: the same source is right on every instruction set and
// fast where the flags of the including file allow. Included only by the files of one instruction set each;
// everything has internal linkage, so that no copy is shared between them.
#pragma once

#include <cstddef>
#include <cstdint>

// Accumulators live in registers only where every loop over them is unrolled.
#define ROOFTUNE_UNROLL _Pragma("GCC unroll 8")

#define ROOFTUNE_INLINE [[gnu::always_inline]] static inline

namespace rooftune {
namespace {

typedef float Floats __attribute__((vector_size(32)));
typedef std::int32_t Ints __attribute__((vector_size(32)));

ROOFTUNE_INLINE Floats load(const float* at) {
    Floats v;
    __builtin_memcpy(&v, at, sizeof(v));
    return v;
}

ROOFTUNE_INLINE void store(float* at, Floats v) { __builtin_memcpy(at, &v, sizeof(v)); }

ROOFTUNE_INLINE Floats all(float value) { return Floats{} + value; }

// Four vectors to their four sums, in order.
ROOFTUNE_INLINE void sums_of_four(Floats a, Floats b, Floats c, Floats d, float* out) {
    const Floats e = __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
                     __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
    const Floats f = __builtin_shufflevector(c, d, 0, 2, 8, 10, 4, 6, 12, 14) +
                     __builtin_shufflevector(c, d, 1, 3, 9, 11, 5, 7, 13, 15);
    const Floats g = __builtin_shufflevector(e, f, 0, 2, 8, 10, 4, 6, 12, 14) +
                     __builtin_shufflevector(e, f, 1, 3, 9, 11, 5, 7, 13, 15);
    const Floats h = g + __builtin_shufflevector(g, g, 4, 5, 6, 7, 0, 1, 2, 3);
    __builtin_memcpy(out, &h, 4 * sizeof(float));
}

ROOFTUNE_INLINE float sum(Floats v) {
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    return v[0] + v[1];
}

ROOFTUNE_INLINE float maximum(float a, float b) { return a > b ? a : b; }

ROOFTUNE_INLINE Floats maximum(Floats a, Floats b) { return a > b ? a : b; }

ROOFTUNE_INLINE float largest(Floats v) {
    v = maximum(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = maximum(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    return maximum(v[0], v[1]);
}

// exp: x = n ln 2 + r with |r| <= ln 2 / 2, then a Taylor polynomial of degree 7 in r (relative error below 1e-7
// before rounding) times 2^n. Exactly 0 below -87, so that masked scores vanish; held at e^88 above.
ROOFTUNE_INLINE Floats exponential(Floats x) {
    const Ints vanishes = x < all(-87.0f);
    Floats held = x < all(-87.0f) ? all(-87.0f) : x;
    held = held > all(88.0f) ? all(88.0f) : held;
    const Floats shift = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest whole number
    const Floats shifted = held * 1.44269504088896341f + shift;
    const Floats n = shifted - shift;
    const Floats r = (held - n * 0.693359375f) + n * 2.12194440054690583e-4f;
    Floats p = all(1.0f / 5040.0f);
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const Ints exponent = (((Ints)shifted - (Ints)shift) + 127) << 23;
    const Floats power = (Floats)exponent;
    return (Floats)((Ints)(p * power) & ~vanishes);
}

ROOFTUNE_INLINE float exponential(float x) { return exponential(all(x))[0]; }

}  // namespace
}  // namespace rooftune
