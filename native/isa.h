// Which instruction set is in use: the best that this processor has, or the one that ROOFTUNE_ISA names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rooftune {

// Kernels of one instruction set. A table is filled by the one translation unit that is compiled for that set,
// so that no instruction of it can leak into code that runs elsewhere.
struct Kernels {
    const char* isa;

    // Probes. read_sum touches every byte once; the others run `rounds` of a register-only loop and return
    // something that depends on every operation. Null where the instruction set has no such operation.
    std::uint64_t (*read_sum)(const void* data, std::size_t bytes);
    float (*f32_mul_add)(std::uint64_t rounds);
    float (*f32_fma)(std::uint64_t rounds);
    std::int64_t (*int8_dot)(std::uint64_t rounds);
    std::int64_t (*int4_int8_dot)(std::uint64_t rounds);
};

// Operations of one round of each probe; a multiply-accumulate counts as two.
constexpr std::uint64_t f32_mul_add_operations = 12 * 8 * 2;
constexpr std::uint64_t f32_fma_operations = 12 * 8 * 2;
constexpr std::uint64_t int8_dot_operations = 8 * 32 * 2;
constexpr std::uint64_t int4_int8_dot_operations = 2 * 8 * 32 * 2;

extern const Kernels portable_kernels;
#ifdef ROOFTUNE_HAS_AVX2
extern const Kernels avx2_kernels;
#endif

// The table in use, decided at the first call. Throws std::runtime_error with one line when ROOFTUNE_ISA names
// a set that is unknown or that this processor does not have.
const Kernels& kernels();

}  // namespace rooftune
