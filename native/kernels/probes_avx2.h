// Register-only loops that reach the arithmetic roof, and the widest reads. Included by avx2.cpp alone.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace rooftune::avx2 {

static float sum_lanes(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

static std::uint64_t read_sum(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    __m256i sums[8];
    for (auto& s : sums) s = _mm256_setzero_si256();
    std::size_t i = 0;
    for (; i + 256 <= bytes; i += 256)
        for (int j = 0; j < 8; ++j)
            sums[j] = _mm256_add_epi64(sums[j],
                                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i + 32 * j)));
    for (int j = 1; j < 8; ++j) sums[0] = _mm256_add_epi64(sums[0], sums[j]);
    alignas(32) std::uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums[0]);
    std::uint64_t sum = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    for (; i < bytes; ++i) sum += at[i];
    return sum;
}

template <bool fused>
static float multiply_add(std::uint64_t rounds) {
    __m256 sums[12];
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i + 1));
    __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
    asm volatile("" : "+x"(factor), "+x"(term));  // not known at compile time
    for (std::uint64_t round = 0; round < rounds; ++round)
        for (auto& s : sums) {
            if constexpr (fused) {
                s = _mm256_fmadd_ps(s, factor, term);
            } else {
                __m256 product = _mm256_mul_ps(s, factor);
                asm("" : "+x"(product));  // keeps the compiler from fusing
                s = _mm256_add_ps(product, term);
            }
        }
    for (int i = 1; i < 12; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return sum_lanes(sums[0]);
}

static float f32_fma(std::uint64_t rounds) { return multiply_add<true>(rounds); }
static float f32_mul_add(std::uint64_t rounds) { return multiply_add<false>(rounds); }

static std::int64_t sum_int32(__m256i v) {
    alignas(32) std::int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), v);
    std::int64_t sum = 0;
    for (const auto lane : lanes) sum += lane;
    return sum;
}

// 8-bit by 8-bit: products of pairs fill 16 bits, so each is widened at once.
static std::int64_t int8_dot(std::uint64_t rounds) {
    __m256i sums[8], left = _mm256_set1_epi8(3), right = _mm256_set1_epi8(-2);
    for (auto& s : sums) s = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1);
    for (std::uint64_t round = 0; round < rounds; ++round)
        for (auto& s : sums) {
            asm volatile("" : "+x"(left));
            s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), ones));
        }
    for (int i = 1; i < 8; ++i) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    return sum_int32(sums[0]);
}

// 4-bit by 8-bit: eight products of pairs fit into 16 bits (8 * 2 * 15 * 127 < 2^15), so one widening serves eight.
static std::int64_t int4_int8_dot(std::uint64_t rounds) {
    __m256i wide[2], left = _mm256_set1_epi8(3), right = _mm256_set1_epi8(-2);
    for (auto& s : wide) s = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        __m256i narrow[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int j = 0; j < 8; ++j)
            for (auto& s : narrow) {
                asm volatile("" : "+x"(left));
                s = _mm256_add_epi16(s, _mm256_maddubs_epi16(left, right));
            }
        for (int i = 0; i < 2; ++i) wide[i] = _mm256_add_epi32(wide[i], _mm256_madd_epi16(narrow[i], ones));
    }
    return sum_int32(_mm256_add_epi32(wide[0], wide[1]));
}

}  // namespace rooftune::avx2
