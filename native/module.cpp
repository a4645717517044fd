// The native extension of Rooftune: CPU kernels and probes. No PyTorch headers: buffers come as addresses.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "isa.h"
#include "probes.h"

namespace nb = nanobind;
using namespace nb::literals;
using released = nb::call_guard<nb::gil_scoped_release>;

NB_MODULE(_native, m) {
    // A process that exits while a thread still holds an engine is no fault worth lines on a user's terminal.
    nb::set_leak_warnings(false);
    m.doc() = "CPU kernels and probes of Rooftune.";
    m.def("version", [] { return std::string("0.1.0"); }, "Version of the native extension.");
    m.def("isa", [] { return std::string(rooftune::kernels().isa); }, "Instruction set in use: portable or avx2.");
    m.def("read_bandwidth", &rooftune::read_bandwidth, "bytes"_a, "threads"_a, "seconds"_a, released());
    m.def("peak_flops", &rooftune::peak_flops, "kind"_a, "threads"_a, "seconds"_a, released());
    m.def("supported_kinds", &rooftune::supported_kinds);
}
