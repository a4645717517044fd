// The kernels without any instruction set beyond the compiler's default: plain loops, right everywhere.
#include "../isa.h"

#include <cstring>

#include "attention.h"
#include "elementwise.h"
#include "half.h"

namespace rooftune {
namespace {

void quantize_rows(const float* x, std::size_t rows, std::size_t k, QuantizedRows out) {
    const std::size_t blocks = rows * (k / block_size);
    for (std::size_t block = 0; block < blocks; ++block) {
        const float* const at = x + block * block_size;
        float high = 0.0f;
        bool unordered = false;
        for (std::size_t i = 0; i < block_size; ++i) {
            const float size = __builtin_fabsf(at[i]);
            unordered = unordered || size != size;
            high = size > high ? size : high;
        }
        if (unordered) high = __builtin_nanf("");  // not a number stays visible
        const float inverse = high > 0.0f ? 127.0f / high : 0.0f;
        int sum = 0;
        for (std::size_t i = 0; i < block_size; ++i) {
            const float rounded = __builtin_rintf(at[i] * inverse);
            const int q = rounded >= -127.0f && rounded <= 127.0f ? static_cast<int>(rounded) : 0;
            out.values[block * block_size + i] = static_cast<std::int8_t>(q);
            sum += q;
        }
        out.scales[block] = high / 127.0f;
        out.sums[block] = out.scales[block] * static_cast<float>(sum);
    }
}

float half_at(const std::uint8_t* at, std::size_t index) {
    std::uint16_t bits;
    std::memcpy(&bits, at + 2 * index, 2);
    return half_to_float(bits);
}

// The whole number that stands at (lane, i) of one packed block.
int quantized_at(Format format, const std::uint8_t* record, std::size_t lane, std::size_t i) {
    const std::size_t vector = i / 4, byte = lane * 4 + i % 4;
    if (format == Format::q8_0) return static_cast<std::int8_t>(record[32 * vector + byte]);
    const int both = record[32 * (vector % 4) + byte];
    return vector < 4 ? both & 15 : both >> 4;
}

void linear_quantized(const MatrixView& matrix, const QuantizedRows& x, TileRange tiles, Output out, std::uint8_t*) {
    const std::size_t blocks = matrix.k / block_size;
    const std::size_t scale_offset = matrix.format == Format::q8_0 ? 256 : 128;
    for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile)
        for (std::size_t lane = 0; lane < tile_rows && tile * tile_rows + lane < matrix.n; ++lane)
            for (std::size_t row = 0; row < x.rows; ++row) {
                float sum = 0.0f;
                for (std::size_t block = 0; block < blocks; ++block) {
                    const std::uint8_t* record =
                        matrix.data + tile * matrix.tile_bytes + block * record_bytes(matrix.format);
                    const std::int8_t* values = x.values + row * x.k + block * block_size;
                    int dot = 0;
                    for (std::size_t i = 0; i < block_size; ++i)
                        dot += quantized_at(matrix.format, record, lane, i) * values[i];
                    const float d = half_at(record + scale_offset, lane);
                    sum += d * (static_cast<float>(dot) * x.scales[row * blocks + block]);
                    if (matrix.format == Format::q4_0) sum += -8.0f * d * x.sums[row * blocks + block];
                    if (matrix.format == Format::q4_1) sum += half_at(record + 144, lane) * x.sums[row * blocks + block];
                }
                float& to = out.data[row * out.stride + tile * tile_rows + lane];
                to = out.accumulate ? to + sum : sum;
            }
}

void linear_f32(const MatrixView& matrix, const float* x, std::size_t rows, TileRange tiles, Output out) {
    for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const auto* data = reinterpret_cast<const float*>(matrix.data + tile * matrix.tile_bytes);
        for (std::size_t row = 0; row < rows; ++row) {
            Floats sums{};
            for (std::size_t k = 0; k < matrix.k; ++k) sums += x[row * matrix.k + k] * load(data + k * tile_rows);
            for (std::size_t lane = 0; lane < tile_rows && tile * tile_rows + lane < matrix.n; ++lane) {
                float& to = out.data[row * out.stride + tile * tile_rows + lane];
                to = out.accumulate ? to + sums[lane] : sums[lane];
            }
        }
    }
}

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
    .quantize_rows = quantize_rows,
    .linear_quantized = linear_quantized,
    .linear_f32 = linear_f32,
    .rms_norm = rms_norm,
    .rotary = rotary,
    .silu_mul = silu_mul,
    .attend = attend,
    .read_sum = read_sum,
    .f32_mul_add = f32_mul_add,
    .f32_fma = nullptr,
    .int8_dot = nullptr,
    .int4_int8_dot = nullptr,
};

}  // namespace rooftune
