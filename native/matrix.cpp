#include "matrix.h"

#include <cstring>
#include <mutex>
#include <stdexcept>

#include "kernels/half.h"

namespace rooftune {
namespace {

Format format_of(const std::string& name) {
    if (name == "f32") return Format::f32;
    if (name == "q4_0") return Format::q4_0;
    if (name == "q4_1") return Format::q4_1;
    if (name == "q8_0") return Format::q8_0;
    throw std::invalid_argument("no native kernel reads weights of format '" + name + "'");
}

void pack_f32(const std::uint8_t* data, const MatrixView& view, std::uint8_t* to) {
    for (std::size_t n = 0; n < view.n; ++n)
        for (std::size_t k = 0; k < view.k; ++k)
            std::memcpy(to + (n / tile_rows) * view.tile_bytes + (k * tile_rows + n % tile_rows) * 4,
                        data + (n * view.k + k) * 4, 4);
}

void pack_blocks(const std::uint8_t* data, const MatrixView& view, std::uint8_t* to) {
    const std::size_t header = view.format == Format::q4_1 ? 4 : 2;
    const std::size_t value_bytes = view.format == Format::q8_0 ? 32 : 16;
    const std::size_t block_bytes = header + value_bytes, blocks = view.k / block_size;
    for (std::size_t n = 0; n < view.n; ++n)
        for (std::size_t block = 0; block < blocks; ++block) {
            const std::uint8_t* const from = data + (n * blocks + block) * block_bytes;
            std::uint8_t* const record =
                to + (n / tile_rows) * view.tile_bytes + block * record_bytes(view.format);
            const std::size_t lane = n % tile_rows;
            for (std::size_t v = 0; v < value_bytes / 4; ++v)
                std::memcpy(record + 32 * v + 4 * lane, from + header + 4 * v, 4);
            std::uint8_t* const scales = record + tile_rows * value_bytes;
            std::memcpy(scales + 2 * lane, from, 2);
            if (header == 4) std::memcpy(scales + 16 + 2 * lane, from + 2, 2);
        }
}

float half_at(const std::uint8_t* at, std::size_t index) {
    std::uint16_t bits;
    std::memcpy(&bits, at + 2 * index, 2);
    return half_to_float(bits);
}

// Weights are laid end to end in chunks of huge pages: a matrix of a few hundred KiB alone would get none. A chunk
// lives as long as any matrix in it.
struct Chunk {
    static constexpr std::size_t size = std::size_t{8} << 20;
    std::unique_ptr<void, void (*)(void*)> memory{allocate(size), std::free};
    std::size_t used = 0;
};

std::shared_ptr<std::uint8_t> weight_memory(std::size_t bytes) {
    if (bytes > Chunk::size / 4) {
        const std::shared_ptr<std::uint8_t> own(static_cast<std::uint8_t*>(allocate(bytes)), std::free);
        if (!own) throw std::bad_alloc();
        return own;
    }
    static auto& mutex = *new std::mutex;  // never destroyed: a matrix may outlive static objects
    static auto& current = *new std::weak_ptr<Chunk>;
    std::lock_guard<std::mutex> lock(mutex);
    auto chunk = current.lock();
    if (!chunk || chunk->used + bytes > Chunk::size) {
        chunk = std::make_shared<Chunk>();
        if (!chunk->memory) throw std::bad_alloc();
        current = chunk;
    }
    auto* const at = static_cast<std::uint8_t*>(chunk->memory.get()) + chunk->used;
    chunk->used += (bytes + 63) / 64 * 64;
    return {chunk, at};
}

}  // namespace

Matrix::Matrix(const std::string& format, const std::uint8_t* data, std::size_t n, std::size_t k)
    : view_{format_of(format), n, k, 0, nullptr} {
    if (n == 0 || k == 0) throw std::invalid_argument("a packed matrix needs rows and columns");
    if (quantized() && k % block_size != 0)
        throw std::invalid_argument("a block format needs rows of a multiple of 32 values, not " + std::to_string(k));
    view_.tile_bytes = quantized() ? k / block_size * record_bytes(view_.format) : k * tile_rows * sizeof(float);
    data_ = weight_memory(bytes());
    std::uint8_t* const to = data_.get();
    std::memset(to, 0, bytes());
    if (quantized())
        pack_blocks(data, view_, to);
    else
        pack_f32(data, view_, to);
    view_.data = to;
}

void Matrix::row(std::size_t index, float* out) const {
    const std::uint8_t* const tile = view_.data + index / tile_rows * view_.tile_bytes;
    const std::size_t lane = index % tile_rows;
    if (!quantized()) {
        for (std::size_t k = 0; k < view_.k; ++k) std::memcpy(out + k, tile + (k * tile_rows + lane) * 4, 4);
        return;
    }
    for (std::size_t block = 0; block < view_.k / block_size; ++block, out += block_size) {
        const std::uint8_t* const record = tile + block * record_bytes(view_.format);
        if (view_.format == Format::q8_0) {
            const float d = half_at(record + 256, lane);
            for (std::size_t i = 0; i < block_size; ++i)
                out[i] = d * static_cast<float>(static_cast<std::int8_t>(record[i / 4 * 32 + lane * 4 + i % 4]));
            continue;
        }
        const float d = half_at(record + 128, lane);
        const float m = view_.format == Format::q4_1 ? half_at(record + 144, lane) : -8.0f * d;
        for (std::size_t i = 0; i < 16; ++i) {
            const int both = record[i / 4 * 32 + lane * 4 + i % 4];
            out[i] = d * static_cast<float>(both & 15) + m;
            out[i + 16] = d * static_cast<float>(both >> 4) + m;
        }
    }
}

}  // namespace rooftune
