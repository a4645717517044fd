// The native extension of Rooftune: CPU kernels and probes. No PyTorch headers: buffers come as addresses.
#include <nanobind/nanobind.h>

#include <string>

namespace nb = nanobind;

NB_MODULE(_native, m) {
    m.doc() = "CPU kernels and probes of Rooftune.";
    m.def("version", [] { return std::string("0.1.0"); }, "Version of the native extension.");
}
