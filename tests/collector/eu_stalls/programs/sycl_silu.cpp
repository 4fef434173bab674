// A program of SYCL that compiles its kernel while it runs, and launches it through two callers: sycl_silu TIMES.
#include <cstdlib>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace syclex = sycl::ext::oneapi::experimental;

static const char* const source = R"(
#include <sycl/sycl.hpp>
namespace syclext = sycl::ext::oneapi;
namespace syclexp = sycl::ext::oneapi::experimental;

float silu(float x) { return x / (1.0f + sycl::exp(-x)); }

extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>))
void silu_kernel(float *x, int n) {
  size_t i = syclext::this_work_item::get_nd_item<1>().get_global_linear_id();
  if (i < n)
    x[i] = silu(x[i]);
}
)";

static void launch(sycl::queue& queue, const sycl::kernel& kernel, float* x, int n) {
  queue
      .submit([&](sycl::handler& handler) {
        handler.set_args(x, n);
        handler.parallel_for(sycl::nd_range<1>{1024, 256}, kernel);
      })
      .wait();
}

__attribute__((noinline)) void forward(sycl::queue& queue, const sycl::kernel& kernel, float* x) {
  for (int turn = 0; turn < 3; turn++) launch(queue, kernel, x, 1024);
  asm volatile("");
}

__attribute__((noinline)) void evaluate(sycl::queue& queue, const sycl::kernel& kernel, float* x) {
  launch(queue, kernel, x, 1024);
  asm volatile("");
}

int main(int, char** arguments) {
  sycl::queue queue{sycl::gpu_selector_v};
  auto text = syclex::create_kernel_bundle_from_source(queue.get_context(), syclex::source_language::sycl, source);
  auto built = syclex::build(text, syclex::properties{syclex::build_options{std::vector<std::string>{"-g"}}});
  auto kernel = built.ext_oneapi_get_kernel("silu_kernel");
  float* x = sycl::malloc_device<float>(1024, queue);
  for (int times = atoi(arguments[1]); times; times--) {
    forward(queue, kernel, x);
    evaluate(queue, kernel, x);
  }
  sycl::free(x, queue);
}
