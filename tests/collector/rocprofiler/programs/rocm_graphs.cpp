// Graphs of known kernels: `rocm_graphs CODE_OBJECT`.
//   chain: left() captures two `scale` of 100 µs, right() one of 1 ms, and middle() a `sum` of 50 µs; replayed twice.
//   branches: on two streams, one_branch() and other_branch() capture a `scale` each, of 10 and 20 µs, and the latter a `sum` of 30 µs.
//   added: add_first() and add_second() add a `scale` each, of 40 and 80 µs, one after the other.
//   earlier: a graph that nobody saw being made, with a `scale` of 70 µs.
//   plain: a `scale` of 5 µs without a graph.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "fake_hip.hpp"
#include "fake_rocprofiler.hpp"

extern "C" {
void register_function(const void*, const char*);
void* earlier_graph(const char*, uint64_t);
}

namespace {

void* const kStream = reinterpret_cast<void*>(0x51);
void* const kOther = reinterpret_cast<void*>(0x52);
void* const kEvent = reinterpret_cast<void*>(0x53);
void* scale = nullptr;
char sum;  // its address is the function's on the host

#define APART __attribute__((noinline)) void
#define KEEP_FRAME asm volatile("")

void launch_scale(unsigned duration, void* stream) { hipModuleLaunchKernel(scale, 4, 1, 1, 64, 1, 1, duration, stream, nullptr, nullptr); }
void launch_sum(unsigned duration, void* stream) { hipLaunchKernel(&sum, {4, 1, 1}, {64, 1, 1}, nullptr, duration, stream); }

APART left() {
  for (int turn = 0; turn < 2; turn++) launch_scale(100'000, kStream);
  KEEP_FRAME;
}
APART middle() {
  launch_sum(50'000, kStream);
  KEEP_FRAME;
}
APART right() {
  launch_scale(1'000'000, kStream);
  KEEP_FRAME;
}
APART one_branch() {
  launch_scale(10'000, kStream);
  KEEP_FRAME;
}
APART other_branch() {
  launch_scale(20'000, kOther);
  launch_sum(30'000, kOther);
  KEEP_FRAME;
}
APART plain() {
  launch_scale(5'000, kStream);
  KEEP_FRAME;
}
APART replay(void* graph) {
  hipGraphLaunch(graph, kStream);
  KEEP_FRAME;
}

void* instantiated(void* graph) {
  void* executable = nullptr;
  hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0);
  hipGraphDestroy(graph);
  return executable;
}

APART chain() {
  void* graph = nullptr;
  hipStreamBeginCapture(kStream, 0);
  left();
  middle();
  right();
  hipStreamEndCapture(kStream, &graph);
  void* executable = instantiated(graph);
  for (int turn = 0; turn < 2; turn++) replay(executable);
  hipGraphExecDestroy(executable);
}

APART branches() {
  void* graph = nullptr;
  hipStreamBeginCapture(kStream, 0);
  hipEventRecord(kEvent, kStream);
  hipStreamWaitEvent(kOther, kEvent, 0);
  one_branch();
  other_branch();
  hipEventRecord(kEvent, kOther);
  hipStreamWaitEvent(kStream, kEvent, 0);
  hipStreamEndCapture(kStream, &graph);
  replay(instantiated(graph));
}

void* add(void* graph, void* before, unsigned duration) {
  void* node = nullptr;
  hipKernelNodeParams parameters{{64, 1, 1}, nullptr, scale, {4, 1, 1}, nullptr, duration};
  hipGraphAddKernelNode(&node, graph, &before, before ? 1 : 0, &parameters);
  return node;
}
__attribute__((noinline)) void* add_first(void* graph) {
  void* node = add(graph, nullptr, 40'000);
  KEEP_FRAME;
  return node;
}
APART add_second(void* graph, void* before) {
  add(graph, before, 80'000);
  KEEP_FRAME;
}
APART added() {
  void* graph = nullptr;
  hipStreamBeginCapture(kStream, 0);
  hipStreamEndCapture(kStream, &graph);
  void* first = add_first(graph);
  add_second(graph, first);
  replay(instantiated(graph));
}

}  // namespace

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  std::string code((std::istreambuf_iterator<char>(file)), {});
  const char* const kernels[] = {"scale", "sum"};
  hipInit(0);
  fake::load_code_object(code.data(), code.size(), kernels, 2);
  register_function(&sum, "sum");
  hipModuleGetFunction(&scale, nullptr, "scale");
  chain();
  branches();
  added();
  replay(earlier_graph("scale", 70'000));
  plain();
  hipDeviceSynchronize();
  printf("%d violations\n", fake::violations());
  return 0;
}
