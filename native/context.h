// One set of threads with the buffers that operators need between calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "attention.h"
#include "kernels/views.h"
#include "matrix.h"
#include "thread_pool.h"

namespace rooftune {

// Rows of activations as linear operators read them. `values` are 8 bits where `quantize` was called.
class Activations {
public:
    // x [rows, k] must outlive the use; nothing is copied.
    void set(const float* x, std::size_t rows, std::size_t k);
    // Quantizes all rows; once per set, needed by block formats only.
    void quantize(ThreadPool& pool);

    const float* x = nullptr;
    QuantizedRows rows{};

private:
    Buffer<std::int8_t> values_;
    Buffer<float> scales_;
    Buffer<float> sums_;
};

// A product to compute: out [rows, n].
struct Product {
    const Matrix* matrix;
    Output out;
};

class Context {
public:
    explicit Context(int threads) : pool(threads) {}

    // All products of the same activations in one parallel run. Throws std::invalid_argument where k differs.
    void linear(Activations& x, const Product* products, std::size_t count);

    // Cosines and sines [tokens, half] of positions times frequencies; kept until they differ from the last ones.
    void angles(const std::int32_t* positions, const float* frequencies, std::size_t tokens, std::size_t half);

    ThreadPool pool;
    std::mutex turn;  // held by an operator for its whole call: the buffers below are shared
    Activations activations;
    AttentionSchedule schedule;
    Buffer<float> cosine;
    Buffer<float> sine;

private:
    Buffer<std::uint8_t> unpacked_;
    std::vector<std::int32_t> positions_;
    std::vector<float> frequencies_;
};

// Runs body(row, count) over ranges of rows, for an operator that touches each value once: in one piece where waking
// a thread costs more than it saves.
template <class Body>
void by_rows(ThreadPool& pool, std::size_t rows, std::size_t size, Body body) {
    if (rows == 0) return;
    const std::size_t step = rows * size < 16384 ? rows : std::max<std::size_t>(1, 4096 / size);
    pool.run((rows + step - 1) / step, [&](std::size_t chunk, int) {
        const std::size_t row = chunk * step;
        body(row, std::min(step, rows - row));
    });
}

}  // namespace rooftune
