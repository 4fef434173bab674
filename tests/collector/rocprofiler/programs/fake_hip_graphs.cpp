// Streams, events and graphs of the stand-in for AMD's runtime: launches on a stream that captures become nodes, and events draw other streams in. A
// graph runs its branches one after the other, the last one first.
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "fake_hip.hpp"
#include "fake_rocprofiler.hpp"

namespace {

struct Kernel {
  std::string name;
};
struct Node {
  std::string kernel;
  uint64_t duration;
  uint64_t branch;
};
struct Graph {
  std::vector<Node> nodes;
};
std::map<void*, Graph*> captures;  // by stream
std::map<void*, Graph*> events;
std::map<const void*, std::string> functions;

uint64_t in(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
uint64_t two(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

void run(const Node& node) {
  fake::Work work{node.kernel.c_str(), node.duration, nullptr, 0};
  fake::submit(work, 4, 64);
}

void launch(const void* function, uint64_t duration, void* stream) {
  Node node{functions.at(function), duration, in(stream)};
  if (auto capture = captures.find(stream); capture != captures.end())
    capture->second->nodes.push_back(node);
  else
    run(node);
}

}  // namespace

#define HIP extern "C" __attribute__((visibility("default")))

// Registers the function for launches, too: as the compiler's code does when a program starts.
HIP void register_function(const void* function, const char* kernel) {
  functions[function] = kernel;
  fake::register_host_function(function, kernel);
}

HIP int hipModuleGetFunction(void** function, void* module, const char* name) {
  fake::Call call("hipModuleGetFunction", {in(function), in(module), in(name)});
  *function = new Kernel{name};
  functions[*function] = name;
  return call.ends(0);
}

HIP int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              void* stream, void** arguments, void** extra) {
  fake::Call call("hipModuleLaunchKernel", {in(function), two(gx, gy), two(gz, bx), two(by, bz), shared, in(stream), in(arguments), in(extra)});
  launch(function, shared, stream);
  return call.ends(0);
}

HIP int hipLaunchKernel(const void* function, hipDim grid, hipDim block, void** arguments, size_t shared, void* stream) {
  fake::Call call("hipLaunchKernel",
                  {in(function), two(grid.x, grid.y), two(grid.z, block.x), two(block.y, block.z), in(arguments), shared, in(stream)});
  launch(function, shared, stream);
  return call.ends(0);
}

HIP int hipStreamBeginCapture(void* stream, int mode) {
  fake::Call call("hipStreamBeginCapture", {in(stream), static_cast<uint64_t>(mode)});
  captures[stream] = new Graph;
  return call.ends(0);
}

HIP int hipStreamEndCapture(void* stream, void** graph) {
  fake::Call call("hipStreamEndCapture", {in(stream), in(graph)});
  Graph* capture = captures.at(stream);
  for (auto* all : {&captures, &events})
    for (auto one = all->begin(); one != all->end();) one = one->second == capture ? all->erase(one) : std::next(one);
  *graph = capture;
  return call.ends(0);
}

HIP int hipEventRecord(void* event, void* stream) {
  fake::Call call("hipEventRecord", {in(event), in(stream)});
  if (captures.count(stream)) events[event] = captures[stream];
  return call.ends(0);
}

HIP int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  fake::Call call("hipStreamWaitEvent", {in(stream), in(event), flags});
  if (events.count(event)) captures[stream] = events[event];
  return call.ends(0);
}

HIP int hipGraphAddKernelNode(void** node, void* graph, void* const* before, size_t count, const hipKernelNodeParams* parameters) {
  fake::Call call("hipGraphAddKernelNode", {in(node), in(graph), in(before), count, in(parameters)});
  static_cast<Graph*>(graph)->nodes.push_back({functions.at(parameters->function), parameters->shared, 0});
  *node = new Kernel;
  return call.ends(0);
}

HIP int hipGraphAddChildGraphNode(void** node, void* graph, void* const* before, size_t count, void* child) {
  fake::Call call("hipGraphAddChildGraphNode", {in(node), in(graph), in(before), count, in(child)});
  for (const Node& one : static_cast<Graph*>(child)->nodes) static_cast<Graph*>(graph)->nodes.push_back(one);
  *node = new Kernel;
  return call.ends(0);
}

HIP int hipGraphInstantiate(void** executable, void* graph, void** failed, char* log, size_t bytes) {
  fake::Call call("hipGraphInstantiate", {in(executable), in(graph), in(failed), in(log), bytes});
  *executable = new Graph(*static_cast<Graph*>(graph));
  return call.ends(0);
}

HIP int hipGraphLaunch(void* executable, void* stream) {
  fake::Call call("hipGraphLaunch", {in(executable), in(stream)});
  std::map<uint64_t, std::vector<Node>, std::greater<>> branches;
  for (const Node& node : static_cast<Graph*>(executable)->nodes) branches[node.branch].push_back(node);
  for (const auto& [branch, nodes] : branches)
    for (const Node& node : nodes) run(node);
  return call.ends(0);
}

HIP int hipGraphDestroy(void* graph) {
  fake::Call call("hipGraphDestroy", {in(graph)});
  delete static_cast<Graph*>(graph);
  return call.ends(0);
}

HIP int hipGraphExecDestroy(void* executable) {
  fake::Call call("hipGraphExecDestroy", {in(executable)});
  delete static_cast<Graph*>(executable);
  return call.ends(0);
}

// A graph that can be launched, made before anybody listened.
HIP void* earlier_graph(const char* kernel, uint64_t duration) { return new Graph{{{kernel, duration, 0}}}; }
