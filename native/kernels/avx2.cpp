// Kernels for x86 with AVX2, FMA and F16C. Only this file is compiled for them, so it must not instantiate inline
// functions of the standard library: the linker could keep these copies for everyone.
#include "../isa.h"

#include "attention.h"
#include "elementwise.h"
#include "linear_avx2.h"
#include "probes_avx2.h"

namespace rooftune {

const Kernels avx2_kernels = {
    .isa = "avx2",
    .quantize_rows = avx2::quantize_rows,
    .linear_quantized = avx2::linear_quantized,
    .linear_f32 = avx2::linear_f32,
    .rms_norm = rms_norm,
    .rotary = rotary,
    .silu_mul = silu_mul,
    .attend = attend,
    .read_sum = avx2::read_sum,
    .f32_mul_add = avx2::f32_mul_add,
    .f32_fma = avx2::f32_fma,
    .int8_dot = avx2::int8_dot,
    .int4_int8_dot = avx2::int4_int8_dot,
};

}  // namespace rooftune
