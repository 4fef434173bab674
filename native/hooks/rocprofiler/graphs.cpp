#include "hooks/rocprofiler/graphs.hpp"

#include "base/clock.hpp"
#include "hooks/rocprofiler/code_objects.hpp"
#include "hooks/rocprofiler/containers.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace aiflame::rocprofiler::graphs {

namespace {

constexpr uint64_t kUnnamed = 0, kOfUnknownGraph = ~uint64_t{0}, kOfUnknownNode = 0;

struct Node {
  uint64_t number, kernel;  // `kernel`: the hash of its name, kUnnamed: unknown
  uint32_t stack, order;    // `order`: how many nodes were made before it
};
// Of a graph that is made, one that is being captured, and one that can be launched.
struct Graph {
  List<Node> nodes;   // in their order; of one that can be launched, by their kernels
  uint64_t last;      // handle of the last node that was added
  uint32_t users;     // launches that are under way, and the table
  bool has_branches;  // not each node follows the one before
  bool is_changed;    // by calls that we do not follow
};

// All under the lock.
std::atomic<bool> held{false};
Table functions;                      // hipFunction_t, or a function of the host → hash of the kernel's name
Table streams, events;                // in a capture → its Graph
Table graphs_made, executables_made;  // by their handles → Graph
uint64_t last_node = 0;
std::atomic<uint32_t> capturing{0};

struct Launch {
  bool runs;
  Graph* graph;    // nullptr: made before the recording
  Table* counted;  // kernels → those that were put into queues
};
thread_local Launch launch;

Graph* graph_of(const Table& table, uint64_t handle) noexcept { return reinterpret_cast<Graph*>(table.find(handle)); }

void release(Graph* graph) noexcept {
  if (!graph || --graph->users) return;
  graph->nodes.clear();
  free(graph);
}

// nullptr: there is no memory.
Graph* put(Table& table, uint64_t handle, const Graph* from) noexcept {
  auto* made = static_cast<Graph*>(calloc(1, sizeof(Graph)));
  if (!made) return nullptr;
  made->users = 1;
  if (from) {
    made->has_branches = from->has_branches;
    made->is_changed = from->is_changed || !made->nodes.add_all(from->nodes);
    made->last = from->last;
  }
  release(graph_of(table, handle));
  if (handle && table.set(handle, reinterpret_cast<uint64_t>(made))) return made;
  release(made);
  return nullptr;
}

void remove(Table& table, uint64_t handle) noexcept {
  release(graph_of(table, handle));
  table.set(handle, 0);
}

uint64_t hash_of(const char* name) noexcept {
  size_t length = strlen(name);
  if (length > 3 && strcmp(name + length - 3, ".kd") == 0) length -= 3;
  uint64_t hash = 0xCBF29CE484222325ull;
  for (size_t at = 0; at < length; at++) hash = (hash ^ static_cast<unsigned char>(name[at])) * 0x100000001B3ull;
  return hash | 1;
}

// The argument at this offset in bytes.
uint64_t at(const ApiCall& call, size_t offset) noexcept {
  uint64_t value = 0;
  if (offset + sizeof value <= argument_bytes(call)) memcpy(&value, call.arguments + offset, sizeof value);
  return value;
}
uint64_t behind(uint64_t address, size_t offset = 0) noexcept {
  uint64_t value = 0;
  if (address) memcpy(&value, reinterpret_cast<const char*>(address) + offset, sizeof value);
  return value;
}

void add_kernel(Graph& graph, uint64_t function, const Maker& maker) noexcept {
  Node node{.number = ++last_node, .kernel = functions.find(function), .stack = maker.stack, .order = graph.nodes.size()};
  if (!graph.nodes.add(node)) graph.is_changed = true;
  if (!maker.stack) return;
  spool::append(schema::GraphNode{.node = node.number,
                                  .thread = maker.thread,
                                  .stack = maker.stack,
                                  .autograd = maker.point.autograd,
                                  .sequence = maker.point.sequence,
                                  .time_ns = now_ns()});
}

void captured(uint64_t stream, uint64_t function, const Maker& maker) noexcept {
  if (!capturing.load(std::memory_order_relaxed)) return;
  Lock lock(held);
  if (Graph* capture = graph_of(streams, stream)) add_kernel(*capture, function, maker);
}

// Its streams and events are in it no more.
void drop_capture(Graph* capture) noexcept {
  for (Table* table : {&streams, &events})
    table->each([&](uint64_t, uint64_t& value) {
      if (value == reinterpret_cast<uint64_t>(capture)) value = 0;
    });
  release(capture);
  capturing.fetch_sub(1, std::memory_order_relaxed);
}

// `graph`: one that the capture adds nodes to.
void begin_capture(uint64_t stream, uint64_t graph) noexcept {
  Lock lock(held);
  if (Graph* left = graph_of(streams, stream)) drop_capture(left);
  const Graph* known = graph ? graph_of(graphs_made, graph) : nullptr;
  Graph* capture = put(streams, stream, known);
  if (!capture) return;
  capture->has_branches = known && known->nodes.size();
  capturing.fetch_add(1, std::memory_order_relaxed);
}

void end_capture(uint64_t stream, uint64_t graph) noexcept {
  Lock lock(held);
  Graph* capture = graph_of(streams, stream);
  if (!capture) return;
  if (graph) put(graphs_made, graph, capture);
  drop_capture(capture);
}

void record_event(uint64_t event, uint64_t stream) noexcept {
  if (!capturing.load(std::memory_order_relaxed)) return;
  Lock lock(held);
  events.set(event, streams.find(stream));
}

// A stream that waits for a capture's event belongs to that capture from now on.
void wait_event(uint64_t stream, uint64_t event) noexcept {
  if (!capturing.load(std::memory_order_relaxed)) return;
  Lock lock(held);
  Graph* capture = graph_of(events, event);
  if (!capture) return;
  streams.set(stream, reinterpret_cast<uint64_t>(capture));
  capture->has_branches = true;
}

void add_node(const ApiCall& call, uint64_t function, const Maker& maker) noexcept {
  Lock lock(held);
  uint64_t handle = at(call, 8);
  Graph* graph = graph_of(graphs_made, handle);
  if (!graph) graph = put(graphs_made, handle, nullptr);
  if (!graph) return;
  bool follows = !graph->nodes.size() || (at(call, 24) == 1 && behind(at(call, 16)) == graph->last);
  graph->has_branches |= !follows;
  graph->last = behind(at(call, 0));
  add_kernel(*graph, function, maker);
}

void add_child(uint64_t parent, uint64_t child) noexcept {
  Lock lock(held);
  const Graph* from = graph_of(graphs_made, child);
  Graph* graph = graph_of(graphs_made, parent);
  if (!graph) graph = put(graphs_made, parent, nullptr);
  if (!graph) return;
  graph->has_branches = true;
  if (!from) graph->is_changed = true;
  for (uint32_t at = 0; from && at < from->nodes.size(); at++) {
    Node node = from->nodes.begin()[at];
    node.order = graph->nodes.size();
    if (!graph->nodes.add(node)) graph->is_changed = true;
  }
}

// The nodes of another graph as they are now. Without it, nothing is known of this one.
Graph* copy(Table& table, uint64_t handle, uint64_t graph) noexcept {
  if (const Graph* known = graph_of(graphs_made, graph)) return put(table, handle, known);
  remove(table, handle);
  return nullptr;
}

void clone(uint64_t handle, uint64_t graph) noexcept {
  Lock lock(held);
  copy(graphs_made, handle, graph);
}

// Nodes with one kernel get no number where branches may bring them in another order, and their stacks differ.
void instantiate(uint64_t handle, uint64_t graph) noexcept {
  Lock lock(held);
  Graph* made = copy(executables_made, handle, graph);
  if (!made) return;
  std::sort(made->nodes.begin(), made->nodes.end(),
            [](const Node& one, const Node& other) { return one.kernel != other.kernel ? one.kernel < other.kernel : one.order < other.order; });
  if (made->nodes.size() && made->nodes.begin()->kernel == kUnnamed) made->is_changed = true;
  for (Node *first = made->nodes.begin(), *end = made->nodes.end(); made->has_branches && first != end;) {
    Node* after = std::find_if(first, end, [&](const Node& one) { return one.kernel != first->kernel; });
    bool is_one_place = std::all_of(first, after, [&](const Node& one) { return one.stack == first->stack; });
    for (; first != after; first++)
      if (!is_one_place) first->number = kOfUnknownNode;
  }
}

void begin_launch(uint64_t executable) noexcept {
  if (!launch.counted) launch.counted = static_cast<Table*>(calloc(1, sizeof(Table)));
  Lock lock(held);
  release(launch.graph);  // of a launch that a longjmp() left
  launch.runs = true;
  launch.graph = graph_of(executables_made, executable);
  if (launch.graph) launch.graph->users++;
  if (launch.counted) launch.counted->clear();
}

void end_launch() noexcept {
  Lock lock(held);
  release(launch.graph);
  launch.graph = nullptr;
  launch.runs = false;
}

// The number of the node with this kernel that has so many of them before it.
uint64_t node_at(const Graph& graph, uint64_t kernel, uint64_t before) noexcept {
  const Node* first = std::lower_bound(graph.nodes.begin(), graph.nodes.end(), kernel, [](const Node& one, uint64_t at) { return one.kernel < at; });
  bool is_there = !graph.is_changed && before < static_cast<uint64_t>(graph.nodes.end() - first) && first[before].kernel == kernel;
  return is_there ? first[before].number : kOfUnknownNode;
}

void name_function(uint64_t function, const char* name) noexcept {
  Lock lock(held);
  if (name) functions.set(function, hash_of(name));
}

void same_function(uint64_t function, uint64_t other) noexcept {
  Lock lock(held);
  functions.set(function, functions.find(other));
}

// `handle` 0: all.
void change(Table& table, uint64_t handle) noexcept {
  Lock lock(held);
  table.each([&](uint64_t key, uint64_t& value) {
    if (!handle || key == handle) reinterpret_cast<Graph*>(value)->is_changed = true;
  });
}

void destroy(Table& table, uint64_t handle) noexcept {
  Lock lock(held);
  remove(table, handle);
}

struct Named {
  std::string_view name;
  Step step;
};
constexpr Named kSteps[] = {
    {"hipModuleGetFunction", Step::GET_FUNCTION},
    {"hipGetFuncBySymbol", Step::GET_FUNCTION_OF_SYMBOL},
    {"hipModuleLaunchKernel", Step::LAUNCH},
    {"hipModuleLaunchCooperativeKernel", Step::LAUNCH},
    {"hipExtModuleLaunchKernel", Step::LAUNCH},
    {"hipLaunchKernel", Step::LAUNCH_BY_HOST},
    {"hipExtLaunchKernel", Step::LAUNCH_BY_HOST},
    {"hipLaunchCooperativeKernel", Step::LAUNCH_BY_HOST},
    {"hipLaunchKernelExC", Step::LAUNCH_BY_CONFIGURATION},
    {"hipDrvLaunchKernelEx", Step::LAUNCH_BY_CONFIGURATION},
    {"hipStreamBeginCapture", Step::BEGIN_CAPTURE},
    {"hipStreamBeginCaptureToGraph", Step::BEGIN_CAPTURE_TO},
    {"hipStreamEndCapture", Step::END_CAPTURE},
    {"hipEventRecord", Step::RECORD_EVENT},
    {"hipEventRecordWithFlags", Step::RECORD_EVENT},
    {"hipStreamWaitEvent", Step::WAIT_EVENT},
    {"hipGraphAddKernelNode", Step::ADD_KERNEL},
    {"hipGraphAddNode", Step::ADD_NODE},
    {"hipGraphAddChildGraphNode", Step::ADD_CHILD},
    {"hipGraphClone", Step::CLONE},
    {"hipGraphInstantiate", Step::INSTANTIATE},
    {"hipGraphInstantiateWithFlags", Step::INSTANTIATE},
    {"hipGraphInstantiateWithParams", Step::INSTANTIATE},
    {"hipGraphExecUpdate", Step::UPDATE},
    {"hipGraphNodeSetEnabled", Step::CHANGE_NODE},
    {"hipGraphExecKernelNodeSetParams", Step::CHANGE_NODE},
    {"hipGraphExecNodeSetParams", Step::CHANGE_NODE},
    {"hipGraphDestroyNode", Step::REMOVE_NODE},
    {"hipGraphKernelNodeSetParams", Step::REMOVE_NODE},
    {"hipGraphNodeSetParams", Step::REMOVE_NODE},
    {"hipGraphLaunch", Step::LAUNCH_GRAPH},
    {"hipGraphDestroy", Step::DESTROY},
    {"hipGraphExecDestroy", Step::DESTROY_EXECUTABLE},
};

}  // namespace

Step step_of(std::string_view name) noexcept {
  if (name.ends_with("_spt")) name.remove_suffix(4);
  for (const Named& one : kSteps)
    if (one.name == name) return one.step;
  return Step::NONE;
}

void before(Step step, const ApiCall& call) noexcept {
  if (step == Step::LAUNCH_GRAPH) begin_launch(at(call, 0));
}

void after(Step step, const ApiCall& call, const Maker& maker) noexcept {
  constexpr size_t kStream = 40, kStreamBehindDimensions = 48, kStreamOfConfiguration = 32, kFunctionOfParameters = 24, kParametersOfNode = 16;
  uint64_t first = at(call, 0), second = at(call, 8);
  uint32_t status = 0;
  if (argument_bytes(call)) memcpy(&status, call.arguments + argument_bytes(call), sizeof status);
  if (step == Step::LAUNCH_GRAPH) return end_launch();
  // A capture that was broken ends with an error, too.
  if (step == Step::END_CAPTURE) return end_capture(first, status ? 0 : behind(second));
  if (status) return;
  switch (step) {
    case Step::GET_FUNCTION:
      return name_function(behind(first), reinterpret_cast<const char*>(at(call, 16)));
    case Step::GET_FUNCTION_OF_SYMBOL:
      return same_function(behind(first), second);
    case Step::LAUNCH:
      return captured(at(call, kStream), first, maker);
    case Step::LAUNCH_BY_HOST:
      return captured(at(call, kStreamBehindDimensions), first, maker);
    case Step::LAUNCH_BY_CONFIGURATION:
      return captured(behind(first, kStreamOfConfiguration), second, maker);
    case Step::BEGIN_CAPTURE:
      return begin_capture(first, 0);
    case Step::BEGIN_CAPTURE_TO:
      return begin_capture(first, second);
    case Step::RECORD_EVENT:
      return record_event(first, second);
    case Step::WAIT_EVENT:
      return wait_event(first, second);
    case Step::ADD_KERNEL:
      return add_node(call, behind(at(call, 32), kFunctionOfParameters), maker);
    case Step::ADD_NODE:
      // The first field is the node's type, 0 a kernel's.
      if (uint64_t node = at(call, 32); node && static_cast<uint32_t>(behind(node)) == 0)
        add_node(call, behind(node, kParametersOfNode + kFunctionOfParameters), maker);
      return;
    case Step::ADD_CHILD:
      return add_child(second, at(call, 32));
    case Step::CLONE:
      return clone(behind(first), second);
    case Step::INSTANTIATE:
      return instantiate(behind(first), second);
    case Step::UPDATE:
      return instantiate(first, second);
    case Step::CHANGE_NODE:
      return change(executables_made, first);
    case Step::REMOVE_NODE:
      // The call names the node alone, and we do not know its graph.
      return change(graphs_made, 0);
    case Step::DESTROY:
      return destroy(graphs_made, first);
    case Step::DESTROY_EXECUTABLE:
      return destroy(executables_made, first);
    default:
      return;
  }
}

void on_host_kernel(const HostKernelSymbol& symbol) noexcept {
  const char* known = kernel(symbol.kernel).name;
  name_function(symbol.host_function, known ? known : symbol.device_function);
}

uint64_t node_of(uint64_t number) noexcept {
  if (!launch.runs) return 0;
  if (!launch.graph) return kOfUnknownGraph;
  const char* name = kernel(number).name;
  if (!name || !launch.counted) return kOfUnknownNode;
  Lock lock(held);
  uint64_t hash = hash_of(name), before = launch.counted->find(hash);
  launch.counted->set(hash, before + 1);
  return node_at(*launch.graph, hash, before);
}

void forget() noexcept {
  Lock lock(held);
  for (Table* table : {&graphs_made, &executables_made}) {
    table->each([](uint64_t, uint64_t& value) { release(reinterpret_cast<Graph*>(value)); });
    table->clear();
  }
}

}  // namespace aiflame::rocprofiler::graphs
