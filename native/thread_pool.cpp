#include "thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace rooftune {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto spin_time = std::chrono::microseconds(50);
constexpr std::size_t maximum_chunks = 0xffffffffu;

// Counts the forks that lie between this process and the first one: a child has none of its parent's workers.
std::atomic<unsigned> forks{0};

void watch_forks() {
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    (void)registered;
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// True as soon as `ready` holds; false when it did not within the spin time.
template <class Ready>
bool spin_until(Ready ready) {
    const auto deadline = Clock::now() + spin_time;
    do {
        for (int i = 0; i < 64; ++i) {
            if (ready()) return true;
            relax();
        }
    } while (Clock::now() < deadline);
    return ready();
}

}  // namespace

// `state` holds the job's number in its upper half and the chunks left to claim in its lower half. A claim is one
// compare-and-swap over both, so a worker that wakes late can never take a chunk of a job it has not seen; and a
// job cannot end before every claimed chunk is done, so its fields are stable for whoever holds a claim.
struct ThreadPool::Crew {
    std::atomic<std::uint64_t> state{0};
    std::atomic<std::size_t> done{0};
    std::atomic<int> sleepers{0};
    std::atomic<bool> owner_sleeps{false};
    std::atomic<bool> stop{false};
    Function function = nullptr;
    void* context = nullptr;
    std::size_t chunks = 0;
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable finished;
    std::vector<std::thread> workers;
    const unsigned born = forks.load(std::memory_order_relaxed);

    explicit Crew(int threads) {
        for (int lane = 1; lane < threads; ++lane) workers.emplace_back([this, lane] { work(lane); });
    }

    ~Crew() {
        {
            std::lock_guard<std::mutex> lock(mutex);
            stop.store(true);
        }
        wake.notify_all();
        for (auto& worker : workers) worker.join();
    }

    static std::uint64_t left(std::uint64_t value) { return value & maximum_chunks; }

    void claim_all(int lane) {
        std::uint64_t seen = state.load(std::memory_order_acquire);
        while (left(seen) != 0) {
            if (!state.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire))
                continue;
            const std::size_t total = chunks;
            function(context, total - static_cast<std::size_t>(left(seen)), lane);
            if (done.fetch_add(1) + 1 == total && owner_sleeps.load()) {
                { std::lock_guard<std::mutex> lock(mutex); }
                finished.notify_one();
            }
            seen = state.load(std::memory_order_acquire);
        }
    }

    void work(int lane) {
        const auto ready = [this] { return left(state.load(std::memory_order_acquire)) != 0 || stop.load(); };
        while (true) {
            if (!spin_until(ready)) {
                std::unique_lock<std::mutex> lock(mutex);
                sleepers.fetch_add(1);
                wake.wait(lock, [this] { return left(state.load()) != 0 || stop.load(); });
                sleepers.fetch_sub(1);
            }
            if (stop.load()) return;
            claim_all(lane);
        }
    }

    void run(std::size_t count, Function body, void* argument) {
        function = body;
        context = argument;
        chunks = count;
        done.store(0);
        owner_sleeps.store(false);
        const std::uint64_t job = (state.load() >> 32) + 1;
        state.store(job << 32 | count);
        if (sleepers.load() > 0) {
            { std::lock_guard<std::mutex> lock(mutex); }
            wake.notify_all();
        }
        claim_all(0);
        const auto complete = [this, count] { return done.load() == count; };
        if (spin_until(complete)) return;
        std::unique_lock<std::mutex> lock(mutex);
        owner_sleeps.store(true);
        finished.wait(lock, complete);
    }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {
    if (threads < 1) throw std::invalid_argument("the number of threads must be at least 1");
    watch_forks();
    crew_ = std::make_unique<Crew>(threads);
}

ThreadPool::~ThreadPool() {
    // After a fork the workers do not exist here: joining them would wait for ever, so the crew is let go.
    if (crew_ && crew_->born != forks.load(std::memory_order_relaxed)) (void)crew_.release();
}

void ThreadPool::run_erased(std::size_t chunks, Function function, void* context) {
    if (chunks == 0) return;
    if (threads_ == 1 || chunks == 1) {
        std::lock_guard<std::mutex> turn(turn_);
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) function(context, chunk, 0);
        return;
    }
    std::lock_guard<std::mutex> turn(turn_);
    if (crew_->born != forks.load(std::memory_order_relaxed)) {
        (void)crew_.release();
        crew_ = std::make_unique<Crew>(threads_);
    }
    crew_->run(chunks, function, context);
}

}  // namespace rooftune
