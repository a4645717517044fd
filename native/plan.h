// A whole decoder step of the llama family in one call: what Python would dispatch operator by operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "context.h"
#include "operators.h"

namespace rooftune {

using SharedMatrix = std::shared_ptr<Matrix>;

struct DecoderLayer {
    SharedMatrix query, key, value, output, gate, up, down;
    std::vector<float> attention_norm, feed_forward_norm;
};

// Which weights a step reads, the shapes that follow from them, and the layers' caches. A step holds the
// context's turn, so that steps and single operators of the same context never run at once.
class Plan {
public:
    // Throws std::invalid_argument where shapes do not fit each other.
    Plan(std::shared_ptr<Context> context, SharedMatrix embedding, SharedMatrix head, Address final_norm,
         Address frequencies, std::size_t heads, std::size_t groups, std::size_t size, float epsilon);

    // Norms: addresses of `hidden` floats; they are copied.
    void add_layer(SharedMatrix query, SharedMatrix key, SharedMatrix value, SharedMatrix output, SharedMatrix gate,
                   SharedMatrix up, SharedMatrix down, Address attention_norm, Address feed_forward_norm);

    // One address per layer of keys and of values, each [pages, groups, page_size, size], alive while bound.
    void bind_cache(const std::vector<Address>& keys, const std::vector<Address>& values, std::size_t pages,
                    std::size_t page_size);

    // tokens int64 [T], positions int32 [T]; rows int64 [count] of T whose logits go to out [count, vocabulary].
    // Throws std::invalid_argument, with nothing written, when the step points outside cache, table or rows.
    void step(const AttentionArguments& arguments, Address tokens, Address positions, Address rows, std::size_t count,
              Address out);

private:
    void normalize(const float* x, const std::vector<float>& gain, std::size_t rows);
    void run_layer(const DecoderLayer& layer, const CacheView& cache, const StepView& step);

    std::shared_ptr<Context> context_;
    SharedMatrix embedding_, head_;
    std::vector<float> final_norm_, frequencies_;
    std::size_t heads_, groups_, size_, hidden_;
    float epsilon_;
    std::vector<DecoderLayer> layers_;
    std::vector<CacheView> caches_;
    Buffer<float> residual_, normal_, queries_, keys_, values_, attended_, gate_, up_;
};

}  // namespace rooftune
