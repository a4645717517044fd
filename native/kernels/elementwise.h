// Normalisation, rotation and activation, in vector_math.h's types. Included by each instruction set.
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

}  // namespace
}  // namespace rooftune
