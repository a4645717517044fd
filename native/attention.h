// Attention over a paged cache: checks what it is given, cuts the work into parts, joins the parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/views.h"
#include "matrix.h"
#include "thread_pool.h"

namespace rooftune {

// Keys and values of one layer, [pages, groups, page_size, size] each.
struct CacheView {
    float* keys;
    float* values;
    std::size_t pages;
    std::size_t groups;
    std::size_t page_size;
    std::size_t size;
};

// What one step computes; see AttentionPlan in rooftune/kernels/contracts.py.
struct StepView {
    const std::int32_t* query_starts;     // [sequences + 1]
    const std::int32_t* context_lengths;  // [sequences]
    const std::int32_t* page_tables;      // [sequences, table_width]
    const std::int64_t* slots;            // [tokens]
    std::size_t sequences;
    std::size_t table_width;
    std::size_t tokens;
    std::vector<const std::uint8_t*> masks;  // empty, or one per sequence (null = causal)
};

// Throws std::invalid_argument when the step would read or write outside the cache or its own arrays.
void check_step(const StepView& step, std::size_t pages, std::size_t page_size);

// The parts of one step's attention; the same for every layer of one shape.
class AttentionSchedule {
public:
    void build(const StepView& step, std::size_t heads, std::size_t groups, std::size_t size, std::size_t page_size,
               int threads);

    // queries and out [tokens, heads, size]; the new keys and values are in the cache already.
    void run(ThreadPool& pool, const StepView& step, const CacheView& cache, const float* queries, std::size_t heads,
             float* out);

private:
    // Result rows of one group for some of a sequence's queries; `segments` parts share them.
    struct Unit {
        std::size_t sequence, first, last, group;
        std::size_t segments, segment_keys, keys;
        std::size_t partials;  // offset of its first segment's results, where there are several
    };
    struct Part {
        std::size_t unit, segment;
    };
    std::vector<Unit> units_;
    std::vector<Part> parts_;
    std::size_t lane_floats_ = 0;
    std::size_t partial_floats_ = 0;
    bool split_ = false;
    Buffer<float> lanes_;
    Buffer<float> partials_;
};

// Writes keys and values [tokens, groups, size] at the step's slots.
void write_cache(const StepView& step, const CacheView& cache, const float* keys, const float* values);

}  // namespace rooftune
