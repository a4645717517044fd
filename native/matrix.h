// A weight packed once into the layout that the kernels read (kernels/views.h), and the buffers that hold such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "kernels/views.h"

namespace rooftune {

// Memory aligned to cache lines that grows and never shrinks; contents are lost when it grows.
template <class Value>
class Buffer {
public:
    Value* room(std::size_t count) {
        if (count > count_) {
            const std::size_t bytes = (count * sizeof(Value) + 63) / 64 * 64;
            data_.reset(static_cast<Value*>(std::aligned_alloc(64, bytes)));
            if (!data_) {
                count_ = 0;
                throw std::bad_alloc();
            }
            count_ = count;
        }
        return data_.get();
    }
    Value* data() const { return data_.get(); }

private:
    struct Free {
        void operator()(Value* at) const { std::free(at); }
    };
    std::unique_ptr<Value, Free> data_;
    std::size_t count_ = 0;
};

class Matrix {
public:
    // `data`: n rows of k values in GGUF's block format, or float32. Throws std::invalid_argument for a format
    // that is not known, an empty shape, or a k that is no multiple of 32 with a block format.
    Matrix(const std::string& format, const std::uint8_t* data, std::size_t n, std::size_t k);

    const MatrixView& view() const { return view_; }
    bool quantized() const { return view_.format != Format::f32; }
    std::size_t tiles() const { return (view_.n + tile_rows - 1) / tile_rows; }
    std::size_t bytes() const { return tiles() * view_.tile_bytes; }

    // Values of one row, out [k].
    void row(std::size_t index, float* out) const;

private:
    MatrixView view_;
    Buffer<std::uint8_t> data_;
};

}  // namespace rooftune
