// Kernels for x86 with AVX2, FMA and F16C. Only this file is compiled for them, so it must not instantiate inline
// functions of the standard library: the linker could keep these copies for everyone.
#include "../isa.h"

#include "probes_avx2.h"

namespace rooftune {

const Kernels avx2_kernels = {
    .isa = "avx2",
    .read_sum = avx2::read_sum,
    .f32_mul_add = avx2::f32_mul_add,
    .f32_fma = avx2::f32_fma,
    .int8_dot = avx2::int8_dot,
    .int4_int8_dot = avx2::int4_int8_dot,
};

}  // namespace rooftune
