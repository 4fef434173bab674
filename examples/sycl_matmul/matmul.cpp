// One matrix product in three ways by SYCL, launched by two callers: matmul KERNELS [SIZE [ROUNDS]]. A round is three steps of train() and one of
// evaluate(). It checks its products; CHECK=off leaves that out, for devices that compute nothing.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace experimental = sycl::ext::oneapi::experimental;

constexpr int kBlock = 16, kWide = 64;  // as in kernels.cpp

struct Way {
  std::string name;
  int part;  // a group computes so many numbers in each direction
  sycl::kernel kernel;
  float* product;
};

struct Work {
  sycl::queue queue;
  int size;
  std::vector<float> left, right;
  float *left_there, *right_there;
  std::vector<Way> ways;
};

static void launch(Work& work, const Way& way) {
  size_t side = static_cast<size_t>(work.size / way.part) * kBlock;
  work.queue.submit([&](sycl::handler& handler) {
    handler.set_args(work.size, work.left_there, work.right_there, way.product);
    handler.parallel_for(sycl::nd_range<2>{{side, side}, {kBlock, kBlock}}, way.kernel);
  });
}

static void step(Work& work) {
  for (const Way& way : work.ways) launch(work, way);
  work.queue.wait();
}

// An empty statement behind the last call keeps the compiler from leaving these frames out of stacks.
__attribute__((noinline)) static void train(Work& work) {
  for (int turn = 0; turn < 3; turn++) step(work);
  asm volatile("");
}

__attribute__((noinline)) static void evaluate(Work& work) {
  step(work);
  asm volatile("");
}

static std::string text_of(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

static Work prepare(const std::string& source, int size) {
  Work work{.queue = sycl::queue{sycl::gpu_selector_v, sycl::property::queue::in_order{}}, .size = size};
  auto bundle = experimental::create_kernel_bundle_from_source(work.queue.get_context(), experimental::source_language::sycl, source);
  // -g, for lines: the option that the compiler in the runtime knows.
  auto built = experimental::build(bundle, experimental::properties{experimental::build_options{std::vector<std::string>{"-g"}}});
  size_t numbers = static_cast<size_t>(size) * size;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number;
  for (size_t at = 0; at < numbers; at++) work.left.push_back(number(random)), work.right.push_back(number(random));
  work.left_there = sycl::malloc_device<float>(numbers, work.queue);
  work.right_there = sycl::malloc_device<float>(numbers, work.queue);
  work.queue.copy(work.left.data(), work.left_there, numbers);
  work.queue.copy(work.right.data(), work.right_there, numbers);
  for (auto [name, part] : {std::pair{"matmul_basic", kBlock}, {"matmul_local", kBlock}, {"matmul_tiled", kWide}})
    work.ways.push_back({name, part, built.ext_oneapi_get_kernel(name), sycl::malloc_device<float>(numbers, work.queue)});
  work.queue.wait();
  return work;
}

// A thousand numbers of each product.
static void check(Work& work) {
  std::mt19937 random(2);
  std::vector<float> product(work.left.size());
  for (const Way& way : work.ways) {
    work.queue.copy(way.product, product.data(), product.size()).wait();
    for (int turn = 0; turn < 1000; turn++) {
      size_t size = work.size, row = random() % size, column = random() % size;
      double expected = 0;
      for (size_t k = 0; k < size; k++) expected += static_cast<double>(work.left[row * size + k]) * work.right[k * size + column];
      if (!(std::abs(product[row * size + column] - expected) <= 1e-4 * expected)) throw std::runtime_error("a product of " + way.name + " is wrong");
    }
  }
}

int main(int count, char** arguments) try {
  if (count < 2) throw std::runtime_error("usage: matmul KERNELS [SIZE [ROUNDS]]");
  int size = count > 2 ? std::atoi(arguments[2]) : 2048, rounds = count > 3 ? std::atoi(arguments[3]) : 20;
  if (size <= 0 || size % kWide) throw std::runtime_error("SIZE is a multiple of 64");
  Work work = prepare(text_of(arguments[1]), size);
  for (int round = 0; round < rounds; round++) {
    train(work);
    evaluate(work);
  }
  const char* checks = std::getenv("CHECK");
  bool checked = !checks || std::string(checks) != "off";
  if (checked) check(work);
  std::cout << rounds << " rounds on " << work.queue.get_device().get_info<sycl::info::device::name>() << (checked ? ": all products are right\n" : "\n");
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
