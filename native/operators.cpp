#include "operators.h"

#include <mutex>
#include <stdexcept>
#include <string>

#include "isa.h"

namespace rooftune {
void embedding(const Matrix& matrix, Address tokens, std::size_t count, Address out) {
    const MatrixView& view = matrix.view();
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t token = pointer<const std::int64_t>(tokens)[i];
        if (token < 0 || static_cast<std::size_t>(token) >= view.n)
            throw std::invalid_argument("token " + std::to_string(token) + " lies outside the vocabulary of " +
                                        std::to_string(view.n));
        matrix.row(static_cast<std::size_t>(token), pointer<float>(out) + i * view.k);
    }
}

void linear(Context& context, Address x, std::size_t rows, const Matrix& matrix, Address out) {
    std::lock_guard<std::mutex> turn(context.turn);
    context.activations.set(pointer<const float>(x), rows, matrix.view().k);
    const Product product{&matrix, {pointer<float>(out), matrix.view().n, false}};
    context.linear(context.activations, &product, 1);
}

void rms_norm(Context& context, Address x, Address gain, float epsilon, std::size_t rows, std::size_t size,
              Address out) {
    by_rows(context.pool, rows, size, [&](std::size_t row, std::size_t count) {
        kernels().rms_norm(pointer<const float>(x) + row * size, pointer<const float>(gain), epsilon, count, size,
                           pointer<float>(out) + row * size);
    });
}

void rotary(Context& context, Address x, Address positions, Address frequencies, std::size_t tokens, std::size_t heads,
            std::size_t size, Address out) {
    std::lock_guard<std::mutex> turn(context.turn);
    const std::size_t half = size / 2;
    context.angles(pointer<const std::int32_t>(positions), pointer<const float>(frequencies), tokens, half);
    by_rows(context.pool, tokens, heads * size, [&](std::size_t row, std::size_t count) {
        kernels().rotary(pointer<const float>(x) + row * heads * size, context.cosine.data() + row * half,
                         context.sine.data() + row * half, count, heads, size,
                         pointer<float>(out) + row * heads * size);
    });
}

void silu_mul(Context& context, Address gate, Address up, std::size_t rows, std::size_t size, Address out) {
    by_rows(context.pool, rows, size, [&](std::size_t row, std::size_t count) {
        kernels().silu_mul(pointer<const float>(gate) + row * size, pointer<const float>(up) + row * size,
                           count * size, pointer<float>(out) + row * size);
    });
}

StepView step_view(const AttentionArguments& arguments) {
    StepView step{pointer<const std::int32_t>(arguments.query_starts),
                  pointer<const std::int32_t>(arguments.context_lengths),
                  pointer<const std::int32_t>(arguments.page_tables),
                  pointer<const std::int64_t>(arguments.slots),
                  arguments.sequences,
                  arguments.table_width,
                  arguments.tokens,
                  {}};
    if (!arguments.masks.empty() && arguments.masks.size() != arguments.sequences)
        throw std::invalid_argument("attention plan: one mask per sequence is needed");
    for (const Address mask : arguments.masks) step.masks.push_back(pointer<const std::uint8_t>(mask));
    return step;
}

void attention(Context& context, const AttentionArguments& arguments, Address queries, Address keys, Address values,
               std::size_t heads, Address cache_keys, Address cache_values, const std::vector<std::size_t>& cache_shape,
               Address out) {
    std::lock_guard<std::mutex> turn(context.turn);
    const CacheView cache{pointer<float>(cache_keys), pointer<float>(cache_values), cache_shape.at(0),
                          cache_shape.at(1),          cache_shape.at(2),            cache_shape.at(3)};
    if (cache.groups == 0 || heads % cache.groups != 0)
        throw std::invalid_argument("attention: query heads are no multiple of the cache's heads");
    const StepView step = step_view(arguments);
    check_step(step, cache.pages, cache.page_size);
    write_cache(step, cache, pointer<const float>(keys), pointer<const float>(values));
    context.schedule.build(step, heads, cache.groups, cache.size, cache.page_size, context.pool.threads());
    context.schedule.run(context.pool, step, cache, pointer<const float>(queries), heads, pointer<float>(out));
}

}  // namespace rooftune
