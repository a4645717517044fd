// A weight packed once into the layout that the kernels read (kernels/views.h), and the buffers that hold such.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "kernels/views.h"

namespace rooftune {

// Memory aligned to cache lines; from 4 MiB on in huge pages where the system offers them, which spares page walks.
inline void* allocate(std::size_t bytes) {
    constexpr std::size_t line = 64, huge = std::size_t{1} << 21;
    const std::size_t unit = bytes >= 2 * huge ? huge : line;
    const std::size_t size = (bytes + unit - 1) / unit * unit;
    void* const at = std::aligned_alloc(unit, size);
#ifdef MADV_HUGEPAGE
    if (at != nullptr && unit == huge) (void)madvise(at, size, MADV_HUGEPAGE);  // a wish; refusal changes nothing
#endif
    return at;
}

// Memory aligned to cache lines that grows and never shrinks; contents are lost when it grows.
template <class Value>
class Buffer {
public:
    Value* room(std::size_t count) {
        if (count > count_) {
            data_.reset(static_cast<Value*>(allocate(count * sizeof(Value))));
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
    std::shared_ptr<std::uint8_t> data_;
};

}  // namespace rooftune
