// The kernels without any instruction set beyond the compiler's default: plain loops, right everywhere.
#include "../isa.h"

#include <cstring>

namespace rooftune {
namespace {

std::uint64_t read_sum(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t sums[8] = {};
    std::size_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
        std::uint64_t words[8];
        std::memcpy(words, at + i, 64);
        for (int j = 0; j < 8; ++j) sums[j] += words[j];
    }
    std::uint64_t sum = 0;
    for (; i < bytes; ++i) sum += at[i];
    for (const auto part : sums) sum += part;
    return sum;
}

float f32_mul_add(std::uint64_t rounds) {
    float sums[12][8];
    for (int i = 0; i < 12; ++i)
        for (int j = 0; j < 8; ++j) sums[i][j] = static_cast<float>(i + j);
    float factor = 0.999f, term = 0.001f;
    asm volatile("" : "+m"(factor), "+m"(term));  // not known at compile time
    for (std::uint64_t round = 0; round < rounds; ++round)
        for (auto& row : sums)
            for (float& value : row) value = value * factor + term;
    float sum = 0.0f;
    for (const auto& row : sums)
        for (const float value : row) sum += value;
    return sum;
}

}  // namespace

const Kernels portable_kernels = {
    .isa = "portable",
    .read_sum = read_sum,
    .f32_mul_add = f32_mul_add,
    .f32_fma = nullptr,
    .int8_dot = nullptr,
    .int4_int8_dot = nullptr,
};

}  // namespace rooftune
