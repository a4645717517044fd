#include "attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "isa.h"

namespace rooftune {
namespace {

constexpr std::size_t rows_together = 32;     // result rows of one part: keys are read once for all of them
constexpr std::size_t shortest_segment = 64;  // keys; below, joining costs more than another thread gains

std::size_t ceil_divide(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

struct Results {
    float* sums;
    float* maxima;
    float* totals;
};

Results results_at(float* at, std::size_t rows, std::size_t size) {
    return {at, at + rows * size, at + rows * size + rows};
}

}  // namespace

void check_step(const StepView& step, std::size_t pages, std::size_t page_size) {
    const auto fail = [](const std::string& what) { throw std::invalid_argument("attention plan: " + what); };
    if (step.query_starts[0] != 0) fail("query_starts does not begin at 0");
    if (static_cast<std::size_t>(step.query_starts[step.sequences]) != step.tokens)
        fail("query_starts does not end at the number of new tokens");
    for (std::size_t s = 0; s < step.sequences; ++s) {
        if (step.query_starts[s + 1] < step.query_starts[s]) fail("query_starts goes back");
        if (step.context_lengths[s] < 0) fail("a context length is below 0");
        const std::size_t keys = static_cast<std::size_t>(step.context_lengths[s]) +
                                 static_cast<std::size_t>(step.query_starts[s + 1] - step.query_starts[s]);
        const std::size_t used = ceil_divide(keys, page_size);
        if (used > step.table_width) fail("a page table is too short for its sequence");
        for (std::size_t p = 0; p < used; ++p) {
            const std::int32_t page = step.page_tables[s * step.table_width + p];
            if (page < 0 || static_cast<std::size_t>(page) >= pages) fail("a page lies outside the cache");
        }
    }
    for (std::size_t t = 0; t < step.tokens; ++t)
        if (step.slots[t] < 0 || static_cast<std::size_t>(step.slots[t]) >= pages * page_size)
            fail("a slot lies outside the cache");
}

void AttentionSchedule::build(const StepView& step, std::size_t heads, std::size_t groups, std::size_t size,
                              std::size_t page_size, int threads) {
    units_.clear();
    parts_.clear();
    partial_floats_ = 0;
    split_ = false;
    const std::size_t per_group = heads / groups;
    const std::size_t queries = std::max<std::size_t>(1, rows_together / per_group);
    for (std::size_t s = 0; s < step.sequences; ++s) {
        const auto count = static_cast<std::size_t>(step.query_starts[s + 1] - step.query_starts[s]);
        const auto context = static_cast<std::size_t>(step.context_lengths[s]);
        const bool causal = step.masks.empty() || step.masks[s] == nullptr;
        for (std::size_t first = 0; first < count; first += queries) {
            const std::size_t last = std::min(count, first + queries);
            for (std::size_t group = 0; group < groups; ++group)
                units_.push_back({s, first, last, group, 1, 0, context + (causal ? last : count), 0});
        }
    }
    // Few units leave threads idle at the end; long ones among them are cut along their keys.
    const std::size_t wanted = 4 * static_cast<std::size_t>(threads);
    const std::size_t pieces = units_.empty() || threads == 1 ? 1 : ceil_divide(wanted, units_.size());
    std::size_t most_rows = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
        Unit& unit = units_[u];
        const std::size_t rows = (unit.last - unit.first) * per_group;
        most_rows = std::max(most_rows, rows);
        const std::size_t segments = std::clamp<std::size_t>(unit.keys / shortest_segment, 1, pieces);
        unit.segment_keys = ceil_divide(ceil_divide(unit.keys, segments), page_size) * page_size;
        unit.segments = ceil_divide(unit.keys, unit.segment_keys);
        for (std::size_t segment = 0; segment < unit.segments; ++segment) parts_.push_back({u, segment});
        if (unit.segments > 1) {
            split_ = true;
            unit.partials = partial_floats_;
            partial_floats_ += unit.segments * rows * (size + 2);
        }
    }
    lane_floats_ = attention_scratch(most_rows) + most_rows * (size + 2);
    lane_floats_ = ceil_divide(lane_floats_, 16) * 16;
    lanes_.room(lane_floats_ * static_cast<std::size_t>(threads));
    partials_.room(partial_floats_);
}

void AttentionSchedule::run(ThreadPool& pool, const StepView& step, const CacheView& cache, const float* queries,
                            std::size_t heads, float* out) {
    const std::size_t size = cache.size, per_group = heads / cache.groups;
    const AttentionCall call{queries,  cache.keys,      cache.values, heads, cache.groups,
                             size,     cache.page_size, 1.0f / std::sqrt(static_cast<float>(size))};
    const auto attend = kernels().attend;
    const auto place = [&](const Unit& unit, std::size_t row) {
        const std::size_t token =
            static_cast<std::size_t>(step.query_starts[unit.sequence]) + unit.first + row / per_group;
        return out + (token * heads + unit.group * per_group + row % per_group) * size;
    };
    pool.run(parts_.size(), [&](std::size_t index, int lane) {
        const Part& part = parts_[index];
        const Unit& unit = units_[part.unit];
        const std::size_t s = unit.sequence, rows = (unit.last - unit.first) * per_group;
        float* const lane_room = lanes_.data() + lane_floats_ * static_cast<std::size_t>(lane);
        float* const room = unit.segments == 1
                                ? lane_room + lane_floats_ - rows * (size + 2)
                                : partials_.data() + unit.partials + part.segment * rows * (size + 2);
        const Results results = results_at(room, rows, size);
        const std::size_t begin = part.segment * unit.segment_keys;
        attend(call,
               {step.page_tables + s * step.table_width, step.masks.empty() ? nullptr : step.masks[s],
                static_cast<std::size_t>(step.query_starts[s]), static_cast<std::size_t>(step.context_lengths[s]),
                static_cast<std::size_t>(step.query_starts[s + 1] - step.query_starts[s]), unit.first, unit.last,
                begin, std::min(unit.keys, begin + unit.segment_keys), unit.group, results.sums, results.maxima,
                results.totals},
               lane_room);
        if (unit.segments > 1) return;
        for (std::size_t row = 0; row < rows; ++row) {
            const float share = results.totals[row] == 0.0f ? 0.0f : 1.0f / results.totals[row];
            float* const to = place(unit, row);
            for (std::size_t i = 0; i < size; ++i) to[i] = results.sums[row * size + i] * share;
        }
    });
    if (!split_) return;
    for (const Unit& unit : units_) {
        if (unit.segments == 1) continue;
        const std::size_t rows = (unit.last - unit.first) * per_group, stride = rows * (size + 2);
        float* const room = partials_.data() + unit.partials;
        for (std::size_t row = 0; row < rows; ++row) {
            float highest = -INFINITY, total = 0.0f;
            for (std::size_t g = 0; g < unit.segments; ++g)
                highest = std::max(highest, results_at(room + g * stride, rows, size).maxima[row]);
            float* const to = place(unit, row);
            std::fill(to, to + size, 0.0f);
            if (highest == -INFINITY) continue;
            for (std::size_t g = 0; g < unit.segments; ++g) {
                const Results results = results_at(room + g * stride, rows, size);
                const float weight = std::exp(results.maxima[row] - highest);
                total += weight * results.totals[row];
                for (std::size_t i = 0; i < size; ++i) to[i] += weight * results.sums[row * size + i];
            }
            const float share = 1.0f / total;
            for (std::size_t i = 0; i < size; ++i) to[i] *= share;
        }
    }
}

void write_cache(const StepView& step, const CacheView& cache, const float* keys, const float* values) {
    const std::size_t size = cache.size, page_size = cache.page_size;
    for (std::size_t t = 0; t < step.tokens; ++t) {
        const auto slot = static_cast<std::size_t>(step.slots[t]);
        for (std::size_t g = 0; g < cache.groups; ++g) {
            const std::size_t to = ((slot / page_size * cache.groups + g) * page_size + slot % page_size) * size;
            const std::size_t from = (t * cache.groups + g) * size;
            std::memcpy(cache.keys + to, keys + from, size * sizeof(float));
            std::memcpy(cache.values + to, values + from, size * sizeof(float));
        }
    }
}

}  // namespace rooftune
