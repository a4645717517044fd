// Normalisation, rotation, activation and attention, in vector_math.h's types. Included by each instruction set.
#pragma once

#include "vector_math.h"
#include "views.h"

namespace rooftune {
namespace {

void rms_norm(const float* x, const float* gain, float epsilon, std::size_t rows, std::size_t size, float* out) {
    for (std::size_t row = 0; row < rows; ++row, x += size, out += size) {
        Floats a{}, b{};
        std::size_t i = 0;
        for (; i + 16 <= size; i += 16) {
            const Floats u = load(x + i), v = load(x + i + 8);
            a += u * u;
            b += v * v;
        }
        float squares = sum(a + b);
        for (; i < size; ++i) squares += x[i] * x[i];
        const float factor = 1.0f / __builtin_sqrtf(squares / static_cast<float>(size) + epsilon);
        for (i = 0; i + 8 <= size; i += 8) store(out + i, load(x + i) * factor * load(gain + i));
        for (; i < size; ++i) out[i] = x[i] * factor * gain[i];
    }
}

void rotary(const float* x, const float* cosine, const float* sine, std::size_t rows, std::size_t heads,
            std::size_t size, float* out) {
    const std::size_t half = size / 2;
    for (std::size_t row = 0; row < rows; ++row, cosine += half, sine += half)
        for (std::size_t head = 0; head < heads; ++head, x += size, out += size) {
            std::size_t i = 0;
            for (; i + 8 <= half; i += 8) {
                const Floats a = load(x + i), b = load(x + half + i), c = load(cosine + i), s = load(sine + i);
                store(out + i, a * c - b * s);
                store(out + half + i, b * c + a * s);
            }
            for (; i < half; ++i) {
                const float a = x[i], b = x[half + i];
                out[i] = a * cosine[i] - b * sine[i];
                out[half + i] = b * cosine[i] + a * sine[i];
            }
        }
}

void silu_mul(const float* gate, const float* up, std::size_t count, float* out) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const Floats g = load(gate + i);
        store(out + i, g / (exponential(-g) + 1.0f) * load(up + i));
    }
    for (; i < count; ++i) out[i] = gate[i] / (exponential(-gate[i]) + 1.0f) * up[i];
}

ROOFTUNE_INLINE float dot(const float* a, const float* b, std::size_t size) {
    Floats s{}, t{};
    std::size_t i = 0;
    for (; i + 16 <= size; i += 16) {
        s += load(a + i) * load(b + i);
        t += load(a + i + 8) * load(b + i + 8);
    }
    for (; i + 8 <= size; i += 8) s += load(a + i) * load(b + i);
    float result = sum(s + t);
    for (; i < size; ++i) result += a[i] * b[i];
    return result;
}

// Scores of `count` (1 to 4) queries against sixteen transposed keys [size, 16].
template <int count>
ROOFTUNE_INLINE void score_rows(const float* const* queries, const float* transposed, std::size_t size, float* scores) {
    Floats low[count] = {}, high[count] = {};
    for (std::size_t d = 0; d < size; ++d) {
        const Floats a = load(transposed + d * attention_keys), b = load(transposed + d * attention_keys + 8);
        for (int r = 0; r < count; ++r) {
            low[r] += queries[r][d] * a;
            high[r] += queries[r][d] * b;
        }
    }
    for (int r = 0; r < count; ++r) {
        store(scores + static_cast<std::size_t>(r) * attention_keys, low[r]);
        store(scores + static_cast<std::size_t>(r) * attention_keys + 8, high[r]);
    }
}

// sums[size] = sums * correction + weights[count] times values [count, size].
ROOFTUNE_INLINE void weigh_values(float* sums, float correction, const float* weights, const float* values,
                                  std::size_t count, std::size_t size) {
    std::size_t i = 0;
    for (; i + 32 <= size; i += 32) {
        Floats a = load(sums + i) * correction, b = load(sums + i + 8) * correction;
        Floats c = load(sums + i + 16) * correction, d = load(sums + i + 24) * correction;
        for (std::size_t j = 0; j < count; ++j) {
            const float* v = values + j * size + i;
            a += weights[j] * load(v);
            b += weights[j] * load(v + 8);
            c += weights[j] * load(v + 16);
            d += weights[j] * load(v + 24);
        }
        store(sums + i, a);
        store(sums + i + 8, b);
        store(sums + i + 16, c);
        store(sums + i + 24, d);
    }
    for (; i < size; ++i) {
        float a = sums[i] * correction;
        for (std::size_t j = 0; j < count; ++j) a += weights[j] * values[j * size + i];
        sums[i] = a;
    }
}

// Online softmax (Milakov and Gimelshein, 2018) over up to sixteen keys of one page at a time, all result rows
// together so that a key is read once per part.
void attend(const AttentionCall& call, const AttentionPart& part, float* scratch) {
    const std::size_t per_group = call.heads / call.groups;
    const std::size_t rows = (part.last - part.first) * per_group;
    const std::size_t size = call.size;
    float* const scores = scratch;
    float* const transposed = scratch + rows * attention_keys;
    const float minus_infinity = -__builtin_inff();
    for (std::size_t r = 0; r < rows; ++r) {
        part.maxima[r] = minus_infinity;
        part.totals[r] = 0.0f;
    }
    for (std::size_t i = 0; i < rows * size; ++i) part.sums[i] = 0.0f;
    const auto query = [&](std::size_t row) {
        const std::size_t token = part.sequence_start + part.first + row / per_group;
        return call.queries + (token * call.heads + part.group * per_group + row % per_group) * size;
    };

    for (std::size_t key = part.key_begin; key < part.key_end;) {
        const std::size_t offset = key % call.page_size;
        std::size_t count = call.page_size - offset;
        if (count > attention_keys) count = attention_keys;
        if (count > part.key_end - key) count = part.key_end - key;
        const std::size_t page = static_cast<std::size_t>(part.pages[key / call.page_size]);
        const std::size_t base = ((page * call.groups + part.group) * call.page_size + offset) * size;
        const float* const keys = call.keys + base;
        const float* const values = call.values + base;

        if (rows >= 6) {
            for (std::size_t j = 0; j < attention_keys; ++j)
                for (std::size_t d = 0; d < size; ++d)
                    transposed[d * attention_keys + j] = j < count ? keys[j * size + d] : 0.0f;
            std::size_t r = 0;
            for (; r + 4 <= rows; r += 4) {
                const float* four[4] = {query(r), query(r + 1), query(r + 2), query(r + 3)};
                score_rows<4>(four, transposed, size, scores + r * attention_keys);
            }
            for (; r < rows; ++r) {
                const float* one[1] = {query(r)};
                score_rows<1>(one, transposed, size, scores + r * attention_keys);
            }
        } else {
            for (std::size_t r = 0; r < rows; ++r) {
                const float* const q = query(r);
                for (std::size_t j = 0; j < count; ++j) scores[r * attention_keys + j] = dot(q, keys + j * size, size);
            }
        }

        for (std::size_t r = 0; r < rows; ++r) {
            float* const row = scores + r * attention_keys;
            const std::size_t token = part.first + r / per_group;
            for (std::size_t j = 0; j < attention_keys; ++j) {
                bool visible = j < count;
                if (visible && key + j >= part.context) {
                    const std::size_t other = key + j - part.context;
                    visible = part.mask ? part.mask[token * part.new_tokens + other] != 0 : other <= token;
                }
                row[j] = visible ? row[j] * call.scale : minus_infinity;
            }
            const Floats a = load(row), b = load(row + 8);
            const float highest = maximum(part.maxima[r], maximum(largest(a), largest(b)));
            if (highest == minus_infinity) continue;
            const Floats p = exponential(a - highest), q = exponential(b - highest);
            const float correction = exponential(part.maxima[r] - highest);
            store(row, p);
            store(row + 8, q);
            part.maxima[r] = highest;
            part.totals[r] = part.totals[r] * correction + sum(p + q);
            weigh_values(part.sums + r * size, correction, row, values, count, size);
        }
        key += count;
    }
}

}  // namespace
}  // namespace rooftune
