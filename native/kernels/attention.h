// Attention over pages, in vector_math.h's types. Included by each instruction set.
#pragma once

#include "vector_math.h"
#include "views.h"

namespace rooftune {
namespace {

constexpr int rows_at_once = 3;  // three rows by four keys fill the registers, so that each load serves three or four

// Scores of `count` queries against `keys` (1 to 16) keys [keys, size]; what lies behind the last key is undefined.
template <int count>
ROOFTUNE_INLINE void score(const float* const* queries, const float* from, std::size_t keys, std::size_t size,
                           float* scores) {
    for (std::size_t key = 0; key < keys; key += 4) {
        const float* four[4];
        ROOFTUNE_UNROLL
        for (std::size_t j = 0; j < 4; ++j) four[j] = from + (key + j < keys ? key + j : keys - 1) * size;
        Floats dots[count][4];
        ROOFTUNE_UNROLL
        for (int r = 0; r < count; ++r) {
            ROOFTUNE_UNROLL
            for (int j = 0; j < 4; ++j) dots[r][j] = Floats{};
        }
        std::size_t i = 0;
        for (; i + 8 <= size; i += 8) {
            Floats q[count];
            ROOFTUNE_UNROLL
            for (int r = 0; r < count; ++r) q[r] = load(queries[r] + i);
            ROOFTUNE_UNROLL
            for (int j = 0; j < 4; ++j) {
                const Floats k = load(four[j] + i);
                ROOFTUNE_UNROLL
                for (int r = 0; r < count; ++r) dots[r][j] += q[r] * k;
            }
        }
        ROOFTUNE_UNROLL
        for (int r = 0; r < count; ++r) {
            float* const to = scores + static_cast<std::size_t>(r) * attention_keys + key;
            sums_of_four(dots[r][0], dots[r][1], dots[r][2], dots[r][3], to);
            for (std::size_t rest = i; rest < size; ++rest)
                for (int j = 0; j < 4; ++j) to[j] += queries[r][rest] * four[j][rest];
        }
    }
}

// sums [count, size] = sums * corrections + weights [count, 16] times values [keys, size].
template <int count>
ROOFTUNE_INLINE void weigh(float* sums, const float* corrections, const float* weights, const float* values,
                           std::size_t keys, std::size_t size) {
    std::size_t i = 0;
    for (; i + 32 <= size; i += 32) {
        Floats total[count][4];
        ROOFTUNE_UNROLL
        for (int r = 0; r < count; ++r) {
            ROOFTUNE_UNROLL
            for (int j = 0; j < 4; ++j)
                total[r][j] = load(sums + static_cast<std::size_t>(r) * size + i + 8 * static_cast<std::size_t>(j)) *
                              corrections[r];
        }
        for (std::size_t key = 0; key < keys; ++key) {
            Floats w[count];
            ROOFTUNE_UNROLL
            for (int r = 0; r < count; ++r) w[r] = all(weights[static_cast<std::size_t>(r) * attention_keys + key]);
            ROOFTUNE_UNROLL
            for (int j = 0; j < 4; ++j) {
                const Floats v = load(values + key * size + i + 8 * static_cast<std::size_t>(j));
                ROOFTUNE_UNROLL
                for (int r = 0; r < count; ++r) total[r][j] += w[r] * v;
            }
        }
        ROOFTUNE_UNROLL
        for (int r = 0; r < count; ++r) {
            ROOFTUNE_UNROLL
            for (int j = 0; j < 4; ++j)
                store(sums + static_cast<std::size_t>(r) * size + i + 8 * static_cast<std::size_t>(j), total[r][j]);
        }
    }
    for (; i < size; ++i)
        for (int r = 0; r < count; ++r) {
            float total = sums[static_cast<std::size_t>(r) * size + i] * corrections[r];
            for (std::size_t key = 0; key < keys; ++key)
                total += weights[static_cast<std::size_t>(r) * attention_keys + key] * values[key * size + i];
            sums[static_cast<std::size_t>(r) * size + i] = total;
        }
}

// Turns one row's scores into weights under its running maximum and returns the correction of what came before.
// Keys that the token may not see, and those behind the last one, get a weight of zero.
ROOFTUNE_INLINE float soften(const AttentionPart& part, std::size_t token, std::size_t key, std::size_t keys,
                             float scale, float* row, float& running, float& total) {
    const float minus_infinity = -__builtin_inff();
    std::size_t visible = keys;
    if (part.mask == nullptr) {
        const std::size_t seen = part.context + token + 1;
        visible = seen <= key ? 0 : seen - key < keys ? seen - key : keys;
    } else {
        const std::uint8_t* const may = part.mask + token * part.new_tokens;
        for (std::size_t j = 0; j < keys; ++j)
            if (key + j >= part.context && may[key + j - part.context] == 0) row[j] = minus_infinity;
    }
    for (std::size_t j = visible; j < attention_keys; ++j) row[j] = minus_infinity;
    const Floats a = load(row) * scale, b = load(row + 8) * scale;
    const float highest = maximum(running, largest(maximum(a, b)));
    if (highest == minus_infinity) {
        store(row, Floats{});
        store(row + 8, Floats{});
        return 1.0f;
    }
    const Floats p = exponential(a - highest), q = exponential(b - highest);
    store(row, p);
    store(row + 8, q);
    const float correction = highest == running ? 1.0f : exponential(running - highest);
    total = total * correction + sum(p + q);
    running = highest;
    return correction;
}

// Online softmax (Milakov and Gimelshein, 2018) over up to sixteen keys of one page at a time, all result rows
// together so that a key is read from memory once per part.
void attend(const AttentionCall& call, const AttentionPart& part, float* scratch) {
    const std::size_t per_group = call.heads / call.groups;
    const std::size_t rows = (part.last - part.first) * per_group, size = call.size;
    float* const scores = scratch;
    float* const corrections = scratch + rows * attention_keys;
    for (std::size_t r = 0; r < rows; ++r) {
        part.maxima[r] = -__builtin_inff();
        part.totals[r] = 0.0f;
    }
    for (std::size_t i = 0; i < rows * size; ++i) part.sums[i] = 0.0f;
    const auto query = [&](std::size_t row) {
        const std::size_t token = part.sequence_start + part.first + row / per_group;
        return call.queries + (token * call.heads + part.group * per_group + row % per_group) * size;
    };

    for (std::size_t key = part.key_begin; key < part.key_end;) {
        const std::size_t offset = key % call.page_size;
        std::size_t keys = call.page_size - offset;
        if (keys > attention_keys) keys = attention_keys;
        if (keys > part.key_end - key) keys = part.key_end - key;
        const std::size_t page = static_cast<std::size_t>(part.pages[key / call.page_size]);
        const std::size_t base = ((page * call.groups + part.group) * call.page_size + offset) * size;
        const float* const from = call.keys + base;
        const float* const values = call.values + base;

        std::size_t r = 0;
        for (; r + rows_at_once <= rows; r += rows_at_once) {
            const float* three[rows_at_once] = {query(r), query(r + 1), query(r + 2)};
            score<rows_at_once>(three, from, keys, size, scores + r * attention_keys);
        }
        for (; r < rows; ++r) {
            const float* one[1] = {query(r)};
            score<1>(one, from, keys, size, scores + r * attention_keys);
        }
        for (r = 0; r < rows; ++r)
            corrections[r] = soften(part, part.first + r / per_group, key, keys, call.scale,
                                    scores + r * attention_keys, part.maxima[r], part.totals[r]);
        for (r = 0; r + rows_at_once <= rows; r += rows_at_once)
            weigh<rows_at_once>(part.sums + r * size, corrections + r, scores + r * attention_keys, values, keys, size);
        for (; r < rows; ++r)
            weigh<1>(part.sums + r * size, corrections + r, scores + r * attention_keys, values, keys, size);
        key += keys;
    }
}

}  // namespace
}  // namespace rooftune
