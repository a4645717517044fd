#include "context.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "isa.h"

namespace rooftune {

void Activations::set(const float* data, std::size_t count, std::size_t k) {
    x = data;
    rows = {nullptr, nullptr, nullptr, count, k};
}

void Activations::quantize(ThreadPool& pool) {
    if (rows.values != nullptr) return;
    const std::size_t blocks = rows.k / block_size;
    rows.values = values_.room(rows.rows * rows.k);
    rows.scales = scales_.room(rows.rows * blocks);
    rows.sums = sums_.room(rows.rows * blocks);
    // A few rows are done before another thread has woken up.
    const std::size_t step = rows.rows * rows.k < 16384 ? rows.rows : 8;
    const auto quantize_rows = kernels().quantize_rows;
    pool.run((rows.rows + step - 1) / step, [&](std::size_t chunk, int) {
        const std::size_t row = chunk * step, count = std::min(step, rows.rows - row);
        quantize_rows(x + row * rows.k, count, rows.k,
                      {rows.values + row * rows.k, rows.scales + row * blocks, rows.sums + row * blocks, count, rows.k});
    });
}

void Context::linear(Activations& x, const Product* products, std::size_t count) {
    if (x.rows.rows == 0) return;
    std::size_t tiles = 0, widest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Matrix& matrix = *products[i].matrix;
        if (matrix.view().k != x.rows.k)
            throw std::invalid_argument("linear: activations have " + std::to_string(x.rows.k) +
                                        " values a row, the weight takes " + std::to_string(matrix.view().k));
        tiles += matrix.tiles();
        if (matrix.quantized()) {
            x.quantize(pool);
            widest = std::max(widest, matrix.view().k / block_size * unpacked_record_bytes);
        }
    }
    std::uint8_t* const scratch = unpacked_.room(widest * static_cast<std::size_t>(pool.threads()));
    const Kernels& table = kernels();
    // Chunks small enough that a thread which is late leaves little to wait for; even ones for kernels that pair tiles.
    const std::size_t chunks = static_cast<std::size_t>(pool.threads()) * 8;
    std::size_t step = (tiles + chunks - 1) / chunks;
    if (step > 1) step += step % 2;
    pool.run((tiles + step - 1) / step, [&](std::size_t chunk, int lane) {
        std::size_t begin = chunk * step;
        const std::size_t end = std::min(tiles, begin + step);
        std::size_t base = 0;
        for (std::size_t i = 0; i < count && begin < end; ++i) {
            const Matrix& matrix = *products[i].matrix;
            const std::size_t last = base + matrix.tiles();
            if (begin < last) {
                const TileRange range{begin - base, std::min(end, last) - base};
                if (matrix.quantized())
                    table.linear_quantized(matrix.view(), x.rows, range, products[i].out,
                                           scratch + widest * static_cast<std::size_t>(lane));
                else
                    table.linear_f32(matrix.view(), x.x, x.rows.rows, range, products[i].out);
                begin = std::min(end, last);
            }
            base = last;
        }
    });
}

void Context::angles(const std::int32_t* positions, const float* frequencies, std::size_t tokens, std::size_t half) {
    const bool same = positions_.size() == tokens && frequencies_.size() == half &&
                      std::equal(positions, positions + tokens, positions_.begin()) &&
                      std::equal(frequencies, frequencies + half, frequencies_.begin());
    if (same) return;
    float* const c = cosine.room(tokens * half);
    float* const s = sine.room(tokens * half);
    for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t i = 0; i < half; ++i) {
            const float angle = static_cast<float>(positions[t]) * frequencies[i];
            c[t * half + i] = std::cos(angle);
            s[t * half + i] = std::sin(angle);
        }
    positions_.assign(positions, positions + tokens);
    frequencies_.assign(frequencies, frequencies + half);
}

}  // namespace rooftune
