// Products of 8-bit activations with 4-bit and 8-bit weights, and of float32, with AVX2. Included by avx2.cpp alone.
//
// For one block of 32 along k: value = d * (d_x * dot(q, q_x)) + m * (d_x * sum(q_x)), with m = -8 d for q4_0 and
// no m for q8_0. 4-bit: eight products of pairs fit into 16 bits (8 * 2 * 15 * 127 < 2^15), so that one widening
// serves a block. 8-bit: |w| as unsigned times x with the sign of w; 2 * 128 * 127 < 2^15, each widened at once.
#pragma once

#include <immintrin.h>

#include "vector_math.h"
#include "views.h"

namespace rooftune::avx2 {

// Keeps the compiler from turning a chain of additions into a tree, whose terms would not fit into the registers.
[[gnu::always_inline]] static inline void in_order(__m256i& sum) { asm("" : "+x"(sum)); }

[[gnu::always_inline]] static inline __m256i vector_at(const void* at) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

[[gnu::always_inline]] static inline __m256i four_bytes(const std::int8_t* at) {
    int lane;
    __builtin_memcpy(&lane, at, 4);
    return _mm256_set1_epi32(lane);
}

[[gnu::always_inline]] static inline __m256 halves_at(const void* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(at)));
}

// Stores the results of one row and tile; the last tile of a matrix may have fewer than eight rows.
[[gnu::always_inline]] static inline void put(const Output& out, std::size_t row, std::size_t first, std::size_t n,
                                              __m256 v) {
    float* const at = out.data + row * out.stride + first;
    if (n - first >= tile_rows) {
        if (out.accumulate) v = _mm256_add_ps(v, _mm256_loadu_ps(at));
        _mm256_storeu_ps(at, v);
        return;
    }
    alignas(32) float lanes[tile_rows];
    _mm256_store_ps(lanes, v);
    for (std::size_t i = 0; i < n - first; ++i) at[i] = out.accumulate ? at[i] + lanes[i] : lanes[i];
}

struct Block {
    __m256 d;
    __m256 m;
};

// d and m of a packed block as floats; m is zero for q8_0.
template <Format format>
[[gnu::always_inline]] static inline Block scales_of(const std::uint8_t* record) {
    if constexpr (format == Format::q8_0) {
        return {halves_at(record + 256), _mm256_setzero_ps()};
    } else if constexpr (format == Format::q4_0) {
        const __m256 d = halves_at(record + 128);
        return {d, _mm256_mul_ps(d, _mm256_set1_ps(-8.0f))};
    } else {
        return {halves_at(record + 128), halves_at(record + 144)};
    }
}

// Adds one block to the sums of `count` rows; `pair(j, low, high)` gives the weights' vectors j and j + 4.
template <Format format, int count, class Pair>
[[gnu::always_inline]] static inline void add_block(Pair pair, const Block& scales, const std::int8_t* const* x,
                                                    std::size_t block, const float* const* x_scales,
                                                    const float* const* x_sums, __m256* sums) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i dots[count];
    ROOFTUNE_UNROLL
    for (int r = 0; r < count; ++r) dots[r] = _mm256_setzero_si256();
    ROOFTUNE_UNROLL
    for (int j = 0; j < 4; ++j) {
        __m256i low, high;
        pair(j, low, high);
        if constexpr (format == Format::q8_0) {
            const __m256i low_size = _mm256_abs_epi8(low), high_size = _mm256_abs_epi8(high);
            ROOFTUNE_UNROLL
            for (int r = 0; r < count; ++r) {
                const std::int8_t* const at = x[r] + block * block_size + 4 * j;
                const __m256i a = _mm256_maddubs_epi16(low_size, _mm256_sign_epi8(four_bytes(at), low));
                const __m256i b = _mm256_maddubs_epi16(high_size, _mm256_sign_epi8(four_bytes(at + 16), high));
                dots[r] = _mm256_add_epi32(
                    dots[r], _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones)));
                in_order(dots[r]);
            }
        } else {
            ROOFTUNE_UNROLL
            for (int r = 0; r < count; ++r) {
                const std::int8_t* const at = x[r] + block * block_size + 4 * j;
                dots[r] = _mm256_add_epi16(dots[r], _mm256_maddubs_epi16(low, four_bytes(at)));
                dots[r] = _mm256_add_epi16(dots[r], _mm256_maddubs_epi16(high, four_bytes(at + 16)));
                in_order(dots[r]);
            }
        }
    }
    ROOFTUNE_UNROLL
    for (int r = 0; r < count; ++r) {
        if constexpr (format != Format::q8_0) dots[r] = _mm256_madd_epi16(dots[r], ones);
        const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_broadcast_ss(x_scales[r] + block));
        sums[r] = _mm256_fmadd_ps(scaled, scales.d, sums[r]);
        if constexpr (format != Format::q8_0)
            sums[r] = _mm256_fmadd_ps(scales.m, _mm256_broadcast_ss(x_sums[r] + block), sums[r]);
    }
}

template <Format format, int count, bool unpacked>
static void tile_by_rows(const std::uint8_t* tile, const MatrixView& matrix, const QuantizedRows& x, std::size_t row,
                         std::size_t first, const Output& out) {
    const std::size_t blocks = matrix.k / block_size;
    const std::int8_t* values[count];
    const float* scales[count];
    const float* block_sums[count];
    __m256 sums[count];
    ROOFTUNE_UNROLL
    for (int r = 0; r < count; ++r) {
        const std::size_t at = row + static_cast<std::size_t>(r);
        values[r] = x.values + at * x.k;
        scales[r] = x.scales + at * blocks;
        block_sums[r] = x.sums + at * blocks;
        sums[r] = _mm256_setzero_ps();
    }
    const __m256i mask = _mm256_set1_epi8(15);
    for (std::size_t block = 0; block < blocks; ++block) {
        const std::uint8_t* const record = tile + block * (unpacked ? unpacked_record_bytes : record_bytes(format));
        Block weight_scales;
        if constexpr (unpacked) {
            const auto* floats = reinterpret_cast<const float*>(record + 256);
            weight_scales = {_mm256_loadu_ps(floats), _mm256_loadu_ps(floats + 8)};
        } else {
            weight_scales = scales_of<format>(record);
        }
        add_block<format, count>(
            [&](int j, __m256i& low, __m256i& high) {
                if constexpr (unpacked || format == Format::q8_0) {
                    low = vector_at(record + 32 * j);
                    high = vector_at(record + 32 * (j + 4));
                } else {
                    const __m256i both = vector_at(record + 32 * j);
                    low = _mm256_and_si256(both, mask);
                    high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
                }
            },
            weight_scales, values, block, scales, block_sums, sums);
    }
    ROOFTUNE_UNROLL
    for (int r = 0; r < count; ++r) put(out, row + static_cast<std::size_t>(r), first, matrix.n, sums[r]);
}

template <Format format>
static void unpack_tile(const std::uint8_t* tile, std::size_t blocks, std::uint8_t* scratch) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (std::size_t block = 0; block < blocks; ++block) {
        const std::uint8_t* const record = tile + block * record_bytes(format);
        std::uint8_t* const to = scratch + block * unpacked_record_bytes;
        ROOFTUNE_UNROLL
        for (int j = 0; j < 4; ++j) {
            const __m256i both = vector_at(record + 32 * j);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * j), _mm256_and_si256(both, mask));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * (j + 4)),
                                _mm256_and_si256(_mm256_srli_epi16(both, 4), mask));
        }
        const Block scales = scales_of<format>(record);
        auto* floats = reinterpret_cast<float*>(to + 256);
        _mm256_storeu_ps(floats, scales.d);
        _mm256_storeu_ps(floats + 8, scales.m);
    }
}

constexpr std::size_t rows_in_cache = 128;  // activations that stay in the second cache while tiles go by
constexpr std::size_t rows_to_unpack = 12;  // from here on unpacking a tile once pays

template <Format format, bool unpacked>
static void tile_all_rows(const std::uint8_t* tile, const MatrixView& matrix, const QuantizedRows& x, std::size_t row,
                          std::size_t end, std::size_t first, const Output& out) {
    for (; row + 4 <= end; row += 4) tile_by_rows<format, 4, unpacked>(tile, matrix, x, row, first, out);
    switch (end - row) {
        case 3: tile_by_rows<format, 3, unpacked>(tile, matrix, x, row, first, out); break;
        case 2: tile_by_rows<format, 2, unpacked>(tile, matrix, x, row, first, out); break;
        case 1: tile_by_rows<format, 1, unpacked>(tile, matrix, x, row, first, out); break;
        default: break;
    }
}

template <Format format>
static void linear_of(const MatrixView& matrix, const QuantizedRows& x, TileRange tiles, Output out,
                      std::uint8_t* scratch) {
    for (std::size_t row = 0; row < x.rows; row += rows_in_cache) {
        const std::size_t end = row + rows_in_cache < x.rows ? row + rows_in_cache : x.rows;
        for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile) {
            const std::uint8_t* const data = matrix.data + tile * matrix.tile_bytes;
            if constexpr (format != Format::q8_0) {
                if (end - row >= rows_to_unpack) {
                    unpack_tile<format>(data, matrix.k / block_size, scratch);
                    tile_all_rows<format, true>(scratch, matrix, x, row, end, tile * tile_rows, out);
                    continue;
                }
            }
            tile_all_rows<format, false>(data, matrix, x, row, end, tile * tile_rows, out);
        }
    }
}

static void linear_quantized(const MatrixView& matrix, const QuantizedRows& x, TileRange tiles, Output out,
                             std::uint8_t* scratch) {
    switch (matrix.format) {
        case Format::q4_0: linear_of<Format::q4_0>(matrix, x, tiles, out, scratch); break;
        case Format::q4_1: linear_of<Format::q4_1>(matrix, x, tiles, out, scratch); break;
        case Format::q8_0: linear_of<Format::q8_0>(matrix, x, tiles, out, scratch); break;
        case Format::f32: break;
    }
}

static void quantize_rows(const float* x, std::size_t rows, std::size_t k, QuantizedRows out) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const std::size_t blocks = rows * (k / block_size);
    for (std::size_t block = 0; block < blocks; ++block) {
        const float* const at = x + block * block_size;
        __m256 v[4];
        __m256 largest = _mm256_setzero_ps(), unordered = _mm256_setzero_ps();
        for (int i = 0; i < 4; ++i) {
            v[i] = _mm256_loadu_ps(at + 8 * i);
            largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, v[i]));
            unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(v[i], v[i], _CMP_UNORD_Q));
        }
        __m128 m = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
        m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        m = _mm_max_ss(m, _mm_movehdup_ps(m));
        float high = _mm_cvtss_f32(m);
        if (_mm256_movemask_ps(unordered) != 0) high = __builtin_nanf("");  // not a number stays visible
        const float inverse = high > 0.0f ? 127.0f / high : 0.0f;
        const __m256 factor = _mm256_set1_ps(inverse);
        __m256i q[4];
        for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], factor));
        const __m256i total = _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
        s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
        s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
        const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.values + block * block_size),
                            _mm256_permutevar8x32_epi32(packed, order));
        out.scales[block] = high / 127.0f;
        out.sums[block] = out.scales[block] * static_cast<float>(_mm_cvtsi128_si32(s));
    }
}

// `count` rows of activations by one or two tiles.
template <int count, int wide>
static void f32_rows(const float* const* tiles, const MatrixView& matrix, const float* x, std::size_t row,
                     std::size_t first, const Output& out) {
    __m256 sums[count][wide];
    ROOFTUNE_UNROLL
    for (int r = 0; r < count; ++r) {
        ROOFTUNE_UNROLL
        for (int t = 0; t < wide; ++t) sums[r][t] = _mm256_setzero_ps();
    }
    for (std::size_t k = 0; k < matrix.k; ++k) {
        __m256 w[wide];
        ROOFTUNE_UNROLL
        for (int t = 0; t < wide; ++t) w[t] = _mm256_loadu_ps(tiles[t] + k * tile_rows);
        ROOFTUNE_UNROLL
        for (int r = 0; r < count; ++r) {
            const __m256 value = _mm256_broadcast_ss(x + (row + static_cast<std::size_t>(r)) * matrix.k + k);
            ROOFTUNE_UNROLL
            for (int t = 0; t < wide; ++t) sums[r][t] = _mm256_fmadd_ps(value, w[t], sums[r][t]);
        }
    }
    ROOFTUNE_UNROLL
    for (int r = 0; r < count; ++r)
        ROOFTUNE_UNROLL
        for (int t = 0; t < wide; ++t)
            put(out, row + static_cast<std::size_t>(r), first + static_cast<std::size_t>(t) * tile_rows, matrix.n,
                sums[r][t]);
}

template <int wide>
static void f32_all_rows(const float* const* tiles, const MatrixView& matrix, const float* x, std::size_t row,
                         std::size_t end, std::size_t first, const Output& out) {
    for (; row + 6 <= end; row += 6) f32_rows<6, wide>(tiles, matrix, x, row, first, out);
    switch (end - row) {
        case 5: f32_rows<5, wide>(tiles, matrix, x, row, first, out); break;
        case 4: f32_rows<4, wide>(tiles, matrix, x, row, first, out); break;
        case 3: f32_rows<3, wide>(tiles, matrix, x, row, first, out); break;
        case 2: f32_rows<2, wide>(tiles, matrix, x, row, first, out); break;
        case 1: f32_rows<1, wide>(tiles, matrix, x, row, first, out); break;
        default: break;
    }
}

static void linear_f32(const MatrixView& matrix, const float* x, std::size_t rows, TileRange tiles, Output out) {
    constexpr std::size_t f32_rows_in_cache = 48;
    for (std::size_t row = 0; row < rows; row += f32_rows_in_cache) {
        const std::size_t end = row + f32_rows_in_cache < rows ? row + f32_rows_in_cache : rows;
        for (std::size_t tile = tiles.begin; tile < tiles.end; tile += 2) {
            const auto* data = reinterpret_cast<const float*>(matrix.data + tile * matrix.tile_bytes);
            const float* pair[2] = {data, data + matrix.k * tile_rows};
            if (tile + 1 < tiles.end)
                f32_all_rows<2>(pair, matrix, x, row, end, tile * tile_rows, out);
            else
                f32_all_rows<1>(pair, matrix, x, row, end, tile * tile_rows, out);
        }
    }
}

}  // namespace rooftune::avx2
