// What kernels are given: plain views without ownership. Included by every instruction set, so no code in it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rooftune {

constexpr std::size_t block_size = 32;  // values along K that share one scale
constexpr std::size_t tile_rows = 8;    // rows of a weight that lie interleaved

enum class Format : int { f32, q4_0, q4_1, q8_0 };

// A packed matrix (n, k): tiles of eight rows, the last one padded with zeros. Within a tile, for a block format,
// one record per block of 32 along k. Four neighbouring values of one row are one 32-bit lane, eight lanes (rows)
// one vector of 32 bytes, eight vectors a block:
//   q8_0: 8 vectors, then 8 float16 d
//   q4_0: 4 vectors (low halves of bytes: vectors 0 to 3, high halves: vectors 4 to 7), then 8 float16 d
//   q4_1: as q4_0, then 8 float16 m
// f32: for each k, 8 floats.
struct MatrixView {
    Format format;
    std::size_t n;
    std::size_t k;
    std::size_t tile_bytes;
    const std::uint8_t* data;
};

static constexpr std::size_t record_bytes(Format format) {
    switch (format) {
        case Format::q4_0: return 128 + 16;
        case Format::q4_1: return 128 + 32;
        case Format::q8_0: return 256 + 16;
        case Format::f32: break;
    }
    return 0;
}

// Bytes of an unpacked tile: per block 256 bytes of values, 8 float d, 8 float m.
constexpr std::size_t unpacked_record_bytes = 256 + 64;

struct TileRange {
    std::size_t begin;
    std::size_t end;
};

// Activations in 8 bits: values [rows, k], per block of 32 the scale and scale * sum of the values [rows, k / 32].
struct QuantizedRows {
    std::int8_t* values;
    float* scales;
    float* sums;
    std::size_t rows;
    std::size_t k;
};

struct Output {
    float* data;
    std::size_t stride;  // floats from one row to the next
    bool accumulate;
};

// Attention of one layer. keys and values [pages, groups, page_size, size]; queries and their output
// [tokens, heads, size]; query head h reads group h / (heads / groups).
struct AttentionCall {
    const float* queries;
    const float* keys;
    const float* values;
    std::size_t heads;
    std::size_t groups;
    std::size_t size;
    std::size_t page_size;
    float scale;
};

// The queries [first, last) of one sequence's new tokens, in one group, over its keys [key_begin, key_end).
// Result rows (query, head in group): weighted sum [rows, size] not yet divided, running maximum and total [rows].
// mask [new_tokens, new_tokens] (non-zero = may attend), or null for causal.
struct AttentionPart {
    const std::int32_t* pages;
    const std::uint8_t* mask;
    std::size_t sequence_start;  // offset of the sequence's new tokens among all
    std::size_t context;
    std::size_t new_tokens;
    std::size_t first;
    std::size_t last;
    std::size_t key_begin;
    std::size_t key_end;
    std::size_t group;
    float* sums;
    float* maxima;
    float* totals;
};

constexpr std::size_t attention_keys = 16;  // keys that are scored together

// Floats of scratch that `attend` needs for this many result rows.
static constexpr std::size_t attention_scratch(std::size_t rows) { return rows * (attention_keys + 1); }

}  // namespace rooftune
