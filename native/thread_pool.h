// Threads that claim chunks of one job from an atomic counter, spin for at most 50 us, then sleep.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>

namespace rooftune {

class ThreadPool {
public:
    // `threads` counts the caller, so one thread means no worker. Throws std::invalid_argument below 1.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return threads_; }

    // Runs body(chunk, lane) for every chunk in [0, chunks) and returns when all are done. Lanes lie in
    // [0, threads()) and no two bodies run at once with the same lane. Callers on several threads take turns.
    // The body must not throw.
    template <class Body>
    void run(std::size_t chunks, Body&& body) {
        using Plain = std::remove_reference_t<Body>;
        run_erased(chunks, [](void* context, std::size_t chunk, int lane) {
            (*static_cast<Plain*>(context))(chunk, lane);
        }, const_cast<void*>(static_cast<const void*>(&body)));
    }

private:
    using Function = void (*)(void* context, std::size_t chunk, int lane);
    struct Crew;

    void run_erased(std::size_t chunks, Function function, void* context);

    const int threads_;
    std::mutex turn_;
    std::unique_ptr<Crew> crew_;
};

}  // namespace rooftune
