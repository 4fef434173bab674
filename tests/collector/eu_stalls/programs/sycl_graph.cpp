// A graph of SYCL of two launches, which two callers replay: sycl_graph TIMES.
#include <cstdlib>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace syclex = sycl::ext::oneapi::experimental;
using Graph = syclex::command_graph<syclex::graph_state::executable>;

static const char* const source = R"(
#include <sycl/sycl.hpp>
namespace syclext = sycl::ext::oneapi;
namespace syclexp = sycl::ext::oneapi::experimental;

extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>))
void twice(float *x) { x[syclext::this_work_item::get_nd_item<1>().get_global_linear_id()] *= 2; }
)";

__attribute__((noinline)) static Graph record(sycl::queue& queue, const sycl::kernel& kernel, float* x) {
  syclex::command_graph graph{queue.get_context(), queue.get_device()};
  graph.begin_recording(queue);
  for (size_t groups : {5, 10})
    queue.submit([&](sycl::handler& handler) {
      handler.set_args(x);
      handler.parallel_for(sycl::nd_range<1>{groups * 64, 64}, kernel);
    });
  graph.end_recording();
  return graph.finalize();
}

static void replay(sycl::queue& queue, const Graph& graph) {
  queue.ext_oneapi_graph(graph);
  queue.wait();
}

__attribute__((noinline)) static void first(sycl::queue& queue, const Graph& graph) {
  for (int turn = 0; turn < 3; turn++) replay(queue, graph);
  asm volatile("");
}

__attribute__((noinline)) static void second(sycl::queue& queue, const Graph& graph) {
  replay(queue, graph);
  asm volatile("");
}

int main(int, char** arguments) {
  sycl::queue queue{sycl::gpu_selector_v, sycl::property::queue::in_order{}};
  auto text = syclex::create_kernel_bundle_from_source(queue.get_context(), syclex::source_language::sycl, source);
  auto kernel = syclex::build(text).ext_oneapi_get_kernel("twice");
  Graph graph = record(queue, kernel, sycl::malloc_device<float>(1024, queue));
  for (int times = atoi(arguments[1]); times; times--) {
    first(queue, graph);
    second(queue, graph);
  }
}
