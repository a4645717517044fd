#include "plan.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "isa.h"

namespace rooftune {
namespace {

std::vector<float> copied(Address address, std::size_t count) {
    const auto* const at = pointer<const float>(address);
    return {at, at + count};
}

void expect(const Matrix& matrix, const char* name, std::size_t n, std::size_t k) {
    if (matrix.view().n != n || matrix.view().k != k)
        throw std::invalid_argument(std::string(name) + " is " + std::to_string(matrix.view().n) + " x " +
                                    std::to_string(matrix.view().k) + ", not " + std::to_string(n) + " x " +
                                    std::to_string(k));
}

}  // namespace

Plan::Plan(std::shared_ptr<Context> context, SharedMatrix embedding, SharedMatrix head, Address final_norm,
           Address frequencies, std::size_t heads, std::size_t groups, std::size_t size, float epsilon)
    : context_(std::move(context)),
      embedding_(std::move(embedding)),
      head_(std::move(head)),
      final_norm_(copied(final_norm, embedding_->view().k)),
      frequencies_(copied(frequencies, size / 2)),
      heads_(heads),
      groups_(groups),
      size_(size),
      hidden_(embedding_->view().k),
      epsilon_(epsilon) {
    if (groups == 0 || size == 0 || heads % groups != 0)
        throw std::invalid_argument("query heads must be a multiple of the key and value heads");
    expect(*head_, "head", embedding_->view().n, hidden_);
}

void Plan::add_layer(SharedMatrix query, SharedMatrix key, SharedMatrix value, SharedMatrix output, SharedMatrix gate,
                     SharedMatrix up, SharedMatrix down, Address attention_norm, Address feed_forward_norm) {
    const std::size_t wide = gate->view().n;
    expect(*query, "query", heads_ * size_, hidden_);
    expect(*key, "key", groups_ * size_, hidden_);
    expect(*value, "value", groups_ * size_, hidden_);
    expect(*output, "output", hidden_, heads_ * size_);
    expect(*gate, "gate", wide, hidden_);
    expect(*up, "up", wide, hidden_);
    expect(*down, "down", hidden_, wide);
    layers_.push_back({std::move(query), std::move(key), std::move(value), std::move(output), std::move(gate),
                       std::move(up), std::move(down), copied(attention_norm, hidden_),
                       copied(feed_forward_norm, hidden_)});
}

void Plan::bind_cache(const std::vector<Address>& keys, const std::vector<Address>& values, std::size_t pages,
                      std::size_t page_size) {
    if (keys.size() != layers_.size() || values.size() != layers_.size())
        throw std::invalid_argument("one cache per layer is needed: " + std::to_string(layers_.size()));
    std::lock_guard<std::mutex> turn(context_->turn);
    caches_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i)
        caches_.push_back({pointer<float>(keys[i]), pointer<float>(values[i]), pages, groups_, page_size, size_});
}

void Plan::normalize(const float* x, const std::vector<float>& gain, std::size_t rows) {
    float* const out = normal_.room(rows * hidden_);
    by_rows(context_->pool, rows, hidden_, [&](std::size_t row, std::size_t count) {
        kernels().rms_norm(x + row * hidden_, gain.data(), epsilon_, count, hidden_, out + row * hidden_);
    });
    context_->activations.set(out, rows, hidden_);
}

void Plan::run_layer(const DecoderLayer& layer, const CacheView& cache, const StepView& step) {
    Context& context = *context_;
    const std::size_t tokens = step.tokens, wide = layer.gate->view().n;
    const std::size_t query_size = heads_ * size_, key_size = groups_ * size_, half = size_ / 2;
    float* const residual = residual_.data();
    float* const queries = queries_.room(tokens * query_size);
    float* const keys = keys_.room(tokens * key_size);
    float* const values = values_.room(tokens * key_size);
    float* const attended = attended_.room(tokens * query_size);
    float* const gate = gate_.room(tokens * wide);
    float* const up = up_.room(tokens * wide);
    const Kernels& table = kernels();

    normalize(residual, layer.attention_norm, tokens);
    const Product projections[3] = {{layer.query.get(), {queries, query_size, false}},
                                    {layer.key.get(), {keys, key_size, false}},
                                    {layer.value.get(), {values, key_size, false}}};
    context.linear(context.activations, projections, 3);

    by_rows(context.pool, tokens, query_size + key_size, [&](std::size_t row, std::size_t count) {
        const float* const cosine = context.cosine.data() + row * half;
        const float* const sine = context.sine.data() + row * half;
        table.rotary(queries + row * query_size, cosine, sine, count, heads_, size_, queries + row * query_size);
        table.rotary(keys + row * key_size, cosine, sine, count, groups_, size_, keys + row * key_size);
    });
    write_cache(step, cache, keys, values);
    context.schedule.run(context.pool, step, cache, queries, heads_, attended);

    context.activations.set(attended, tokens, query_size);
    const Product output{layer.output.get(), {residual, hidden_, true}};
    context.linear(context.activations, &output, 1);

    normalize(residual, layer.feed_forward_norm, tokens);
    const Product both[2] = {{layer.gate.get(), {gate, wide, false}}, {layer.up.get(), {up, wide, false}}};
    context.linear(context.activations, both, 2);
    by_rows(context.pool, tokens, wide, [&](std::size_t row, std::size_t count) {
        table.silu_mul(gate + row * wide, up + row * wide, count * wide, gate + row * wide);
    });
    context.activations.set(gate, tokens, wide);
    const Product down{layer.down.get(), {residual, hidden_, true}};
    context.linear(context.activations, &down, 1);
}

void Plan::step(const AttentionArguments& arguments, Address tokens, Address positions, Address rows, std::size_t count,
                Address out) {
    std::lock_guard<std::mutex> turn(context_->turn);
    const StepView step = step_view(arguments);
    if (caches_.size() != layers_.size() || layers_.empty())
        throw std::invalid_argument("the plan has no layers, or no cache is bound");
    check_step(step, caches_[0].pages, caches_[0].page_size);
    const auto* const wanted = pointer<const std::int64_t>(rows);
    for (std::size_t i = 0; i < count; ++i)
        if (wanted[i] < 0 || static_cast<std::size_t>(wanted[i]) >= step.tokens)
            throw std::invalid_argument("logits are asked for row " + std::to_string(wanted[i]) + " of " +
                                        std::to_string(step.tokens));
    if (step.tokens == 0) return;

    float* const residual = residual_.room(step.tokens * hidden_);
    embedding(*embedding_, tokens, step.tokens, reinterpret_cast<Address>(residual));
    context_->angles(pointer<const std::int32_t>(positions), frequencies_.data(), step.tokens, size_ / 2);
    context_->schedule.build(step, heads_, groups_, size_, caches_[0].page_size, context_->pool.threads());
    for (std::size_t i = 0; i < layers_.size(); ++i) run_layer(layers_[i], caches_[i], step);

    if (count == 0) return;
    float* const picked = attended_.room(count * hidden_);
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(picked + i * hidden_, residual + static_cast<std::size_t>(wanted[i]) * hidden_,
                    hidden_ * sizeof(float));
    normalize(picked, final_norm_, count);
    const Product logits{head_.get(), {pointer<float>(out), head_->view().n, false}};
    context_->linear(context_->activations, &logits, 1);
}

}  // namespace rooftune
