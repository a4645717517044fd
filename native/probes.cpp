#include "probes.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "isa.h"

namespace rooftune {
namespace {

using Clock = std::chrono::steady_clock;

struct Kind {
    const char* name;
    std::uint64_t operations;
    std::function<std::uint64_t(std::uint64_t)> run;  // empty where the instruction set has none
};

template <class Result>
std::function<std::uint64_t(std::uint64_t)> sink(Result (*probe)(std::uint64_t)) {
    if (probe == nullptr) return {};
    return [probe](std::uint64_t rounds) { return static_cast<std::uint64_t>(probe(rounds)); };
}

std::vector<Kind> kinds() {
    const Kernels& table = kernels();
    return {{"f32_mul_add", f32_mul_add_operations, sink(table.f32_mul_add)},
            {"f32_fma", f32_fma_operations, sink(table.f32_fma)},
            {"int8_dot", int8_dot_operations, sink(table.int8_dot)},
            {"int4_int8_dot", int4_int8_dot_operations, sink(table.int4_int8_dot)}};
}

// Runs `pass` over and over on each thread until `seconds` are over and returns the sum of the threads' rates;
// a pass returns the units of work that it did.
double rate(int threads, double seconds, const std::function<double(int)>& pass) {
    std::atomic<int> waiting{threads};
    std::vector<double> rates(static_cast<std::size_t>(threads), 0.0);
    const auto body = [&](int lane) {
        pass(lane);  // brings the working set into its caches and the clock up
        waiting.fetch_sub(1);
        while (waiting.load() > 0) std::this_thread::yield();
        const auto begin = Clock::now();
        double work = 0.0;
        double elapsed = 0.0;
        do {
            work += pass(lane);
            elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
        } while (elapsed < seconds);
        rates[static_cast<std::size_t>(lane)] = work / elapsed;
    };
    std::vector<std::thread> others;
    for (int lane = 1; lane < threads; ++lane) others.emplace_back(body, lane);
    body(0);
    for (auto& other : others) other.join();
    double sum = 0.0;
    for (const double value : rates) sum += value;
    return sum;
}

void check(int threads, double seconds) {
    if (threads < 1) throw std::invalid_argument("the number of threads must be at least 1");
    if (!(seconds > 0.0)) throw std::invalid_argument("the time of a probe must be above 0 seconds");
}

std::atomic<std::uint64_t> witness{0};  // keeps results alive

}  // namespace

double read_bandwidth(std::size_t bytes, int threads, double seconds) {
    check(threads, seconds);
    constexpr std::size_t line = 64;
    const std::size_t part = bytes / static_cast<std::size_t>(threads) / line * line;
    if (part < 1024) throw std::invalid_argument("a bandwidth probe needs at least 1 KiB per thread");
    const std::size_t total = part * static_cast<std::size_t>(threads);
    const std::unique_ptr<std::uint8_t, void (*)(void*)> data(
        static_cast<std::uint8_t*>(std::aligned_alloc(line, total)), std::free);
    if (!data) throw std::bad_alloc();
    for (std::size_t i = 0; i < total; ++i) data.get()[i] = static_cast<std::uint8_t>(i * 31);
    const auto read = kernels().read_sum;
    // Small parts are read many times per look at the clock.
    const std::size_t repeats = part < (1u << 18) ? (1u << 18) / part + 1 : 1;
    return rate(threads, seconds, [&](int lane) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < repeats; ++i) sum += read(data.get() + part * static_cast<std::size_t>(lane), part);
        witness.fetch_add(sum, std::memory_order_relaxed);
        return static_cast<double>(part) * static_cast<double>(repeats);
    });
}

double peak_flops(const std::string& kind, int threads, double seconds) {
    check(threads, seconds);
    for (const Kind& candidate : kinds()) {
        if (kind != candidate.name) continue;
        if (!candidate.run)
            throw std::invalid_argument("the instruction set in use (" + std::string(kernels().isa) + ") has no " + kind);
        constexpr std::uint64_t rounds = 20000;
        return rate(threads, seconds, [&](int) {
            witness.fetch_add(candidate.run(rounds), std::memory_order_relaxed);
            return static_cast<double>(rounds * candidate.operations);
        });
    }
    throw std::invalid_argument("there is no probe of kind '" + kind + "'");
}

std::vector<std::string> supported_kinds() {
    std::vector<std::string> names;
    for (const Kind& kind : kinds())
        if (kind.run) names.emplace_back(kind.name);
    return names;
}

}  // namespace rooftune
