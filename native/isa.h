// Which instruction set is in use: the best that this processor has, or the one that ROOFTUNE_ISA names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/views.h"

namespace rooftune {

// Kernels of one instruction set. A table is filled by the one translation unit that is compiled for that set,
// so that no instruction of it can leak into code that runs elsewhere. Shapes and layouts: kernels/views.h.
struct Kernels {
    const char* isa;

    // Activations [rows, k] to 8 bits per block of 32: scale = max|x| / 127, values rounded to the nearest even.
    void (*quantize_rows)(const float* x, std::size_t rows, std::size_t k, QuantizedRows out);
    // out[row, 8 * tile + lane] for the tiles [begin, end), all rows; adds to `out` when `accumulate` is set.
    // `scratch` holds at least scratch_bytes(matrix) bytes.
    void (*linear_quantized)(const MatrixView& matrix, const QuantizedRows& x, TileRange tiles, Output out,
                             std::uint8_t* scratch);
    void (*linear_f32)(const MatrixView& matrix, const float* x, std::size_t rows, TileRange tiles, Output out);

    void (*rms_norm)(const float* x, const float* gain, float epsilon, std::size_t rows, std::size_t size, float* out);
    // cosine and sine [rows, size / 2]; x and out [rows, heads, size].
    void (*rotary)(const float* x, const float* cosine, const float* sine, std::size_t rows, std::size_t heads,
                   std::size_t size, float* out);
    void (*silu_mul)(const float* gate, const float* up, std::size_t count, float* out);
    // One part of attention without its normalisation; see AttentionPart.
    void (*attend)(const AttentionCall& call, const AttentionPart& part, float* scratch);

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
