// The native extension of Rooftune: CPU kernels and probes. No PyTorch headers: buffers come as addresses.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "isa.h"
#include "operators.h"
#include "plan.h"
#include "probes.h"

namespace nb = nanobind;
using namespace nb::literals;
using released = nb::call_guard<nb::gil_scoped_release>;
using rooftune::Address;

namespace {

void bind_operators(nb::module_& m) {
    nb::class_<rooftune::Matrix>(m, "Matrix", "A weight packed for the kernels.")
        .def("__init__", [](rooftune::Matrix* self, const std::string& format, Address data, std::size_t n, std::size_t k) {
            new (self) rooftune::Matrix(format, rooftune::pointer<const std::uint8_t>(data), n, k);
        }, "format"_a, "data"_a, "n"_a, "k"_a, released())
        .def_prop_ro("n", [](const rooftune::Matrix& self) { return self.view().n; })
        .def_prop_ro("k", [](const rooftune::Matrix& self) { return self.view().k; })
        .def_prop_ro("bytes", &rooftune::Matrix::bytes, "Bytes that one use reads.");
    nb::class_<rooftune::Context>(m, "Context", "Threads and buffers of one set of operators.")
        .def(nb::init<int>(), "threads"_a)
        .def_prop_ro("threads", [](const rooftune::Context& self) { return self.pool.threads(); });
    nb::class_<rooftune::AttentionArguments>(m, "AttentionArguments", "Addresses of the arrays of one step.")
        .def(nb::init<Address, Address, Address, Address, std::size_t, std::size_t, std::size_t, std::vector<Address>>(),
             "query_starts"_a, "context_lengths"_a, "page_tables"_a, "slots"_a, "sequences"_a, "table_width"_a,
             "tokens"_a, "masks"_a);
    m.def("embedding", &rooftune::embedding, "matrix"_a, "tokens"_a, "count"_a, "out"_a, released());
    m.def("linear", &rooftune::linear, "context"_a, "x"_a, "rows"_a, "matrix"_a, "out"_a, released());
    m.def("rms_norm", &rooftune::rms_norm, "context"_a, "x"_a, "gain"_a, "epsilon"_a, "rows"_a, "size"_a, "out"_a,
          released());
    m.def("rotary", &rooftune::rotary, "context"_a, "x"_a, "positions"_a, "frequencies"_a, "tokens"_a, "heads"_a,
          "size"_a, "out"_a, released());
    m.def("silu_mul", &rooftune::silu_mul, "context"_a, "gate"_a, "up"_a, "rows"_a, "size"_a, "out"_a, released());
    m.def("attention", &rooftune::attention, "context"_a, "arguments"_a, "queries"_a, "keys"_a, "values"_a, "heads"_a,
          "cache_keys"_a, "cache_values"_a, "cache_shape"_a, "out"_a, released());
}

void bind_plan(nb::module_& m) {
    nb::class_<rooftune::Plan>(m, "Plan", "A whole decoder step of the llama family in one call.")
        .def(nb::init<std::shared_ptr<rooftune::Context>, rooftune::SharedMatrix, rooftune::SharedMatrix, Address,
                      Address, std::size_t, std::size_t, std::size_t, float>(),
             "context"_a, "embedding"_a, "head"_a, "final_norm"_a, "frequencies"_a, "heads"_a, "groups"_a, "size"_a,
             "epsilon"_a)
        .def("add_layer", &rooftune::Plan::add_layer, "query"_a, "key"_a, "value"_a, "output"_a, "gate"_a, "up"_a,
             "down"_a, "attention_norm"_a, "feed_forward_norm"_a)
        .def("bind_cache", &rooftune::Plan::bind_cache, "keys"_a, "values"_a, "pages"_a, "page_size"_a, released())
        .def("step", &rooftune::Plan::step, "arguments"_a, "tokens"_a, "positions"_a, "rows"_a, "count"_a, "out"_a,
             released());
}

}  // namespace

NB_MODULE(_native, m) {
    // A process that exits while a thread still holds an engine is no fault worth lines on a user's terminal.
    nb::set_leak_warnings(false);
    m.doc() = "CPU kernels and probes of Rooftune.";
    m.def("version", [] { return std::string("0.1.0"); }, "Version of the native extension.");
    m.def("isa", [] { return std::string(rooftune::kernels().isa); }, "Instruction set in use: portable or avx2.");
    m.def("read_bandwidth", &rooftune::read_bandwidth, "bytes"_a, "threads"_a, "seconds"_a, released());
    m.def("peak_flops", &rooftune::peak_flops, "kind"_a, "threads"_a, "seconds"_a, released());
    m.def("supported_kinds", &rooftune::supported_kinds);
    bind_operators(m);
    bind_plan(m);
}
