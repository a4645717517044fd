// IEEE float16 to float32 without an instruction for it.
#pragma once

#include <cstdint>

namespace rooftune {
namespace {

inline float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    const std::uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
    if (exponent == 0) {  // zero and subnormal numbers: fraction * 2^-24
        const float size = static_cast<float>(fraction) * 5.9604644775390625e-8f;
        return sign != 0 ? -size : size;
    }
    const std::uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

}  // namespace
}  // namespace rooftune
