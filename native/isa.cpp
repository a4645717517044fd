#include "isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace rooftune {
namespace {

bool processor_has_avx2() {
#ifdef ROOFTUNE_HAS_AVX2
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

const Kernels& choose() {
    const char* asked = std::getenv("ROOFTUNE_ISA");
    const std::string name = asked == nullptr ? "" : asked;
    if (name == "portable") return portable_kernels;
    if (!name.empty() && name != "avx2")
        throw std::runtime_error("ROOFTUNE_ISA is '" + name + "'; set it to portable or avx2, or unset it");
#ifdef ROOFTUNE_HAS_AVX2
    if (processor_has_avx2()) return avx2_kernels;
#endif
    if (name == "avx2")
        throw std::runtime_error("ROOFTUNE_ISA asks for avx2, which this processor or build does not have; unset it");
    return portable_kernels;
}

}  // namespace

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace rooftune
