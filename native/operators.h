// The operators as Python calls them: buffers are addresses of contiguous memory that outlives the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "context.h"

namespace rooftune {

using Address = std::uintptr_t;

template <class Value>
Value* pointer(Address address) {
    return reinterpret_cast<Value*>(address);
}

void embedding(const Matrix& matrix, Address tokens, std::size_t count, Address out);
void linear(Context& context, Address x, std::size_t rows, const Matrix& matrix, Address out);
void rms_norm(Context& context, Address x, Address gain, float epsilon, std::size_t rows, std::size_t size,
              Address out);
void rotary(Context& context, Address x, Address positions, Address frequencies, std::size_t tokens, std::size_t heads,
            std::size_t size, Address out);
void silu_mul(Context& context, Address gate, Address up, std::size_t rows, std::size_t size, Address out);

// cache_shape: pages, groups, page_size, size. masks: empty, or one address per sequence (0 = causal).
struct AttentionArguments {
    Address query_starts, context_lengths, page_tables, slots;
    std::size_t sequences, table_width, tokens;
    std::vector<Address> masks;
};
StepView step_view(const AttentionArguments& arguments);
void attention(Context& context, const AttentionArguments& arguments, Address queries, Address keys, Address values,
               std::size_t heads, Address cache_keys, Address cache_values, const std::vector<std::size_t>& cache_shape,
               Address out);

}  // namespace rooftune
