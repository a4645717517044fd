// What this machine can do at most: bytes read per second, operations per second.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rooftune {

// Bytes per second that `threads` threads read together from a working set of `bytes`, each its own part, over
// `seconds`. Throws std::invalid_argument for a working set too small to be split, or no time.
double read_bandwidth(std::size_t bytes, int threads, double seconds);

// Operations per second of `threads` threads over `seconds`, operands in registers. A multiply-accumulate counts
// as two. Throws std::invalid_argument with the reason where the instruction set in use has no such kind.
double peak_flops(const std::string& kind, int threads, double seconds);

// The kinds that peak_flops accepts with the instruction set in use.
std::vector<std::string> supported_kinds();

}  // namespace rooftune
