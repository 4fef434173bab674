// Launches, copies and graphs.
#include "driver_api.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace fake {
namespace {

constexpr uint64_t kCopyTook = 2'000;

// CUPTI knows only nodes that were made while it listened.
void tell_node(uint32_t id, Graph* graph, Node* node) {
  node->heard = driver::heard();
  bool cloned = id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
  CUpti_GraphData data{.graph = reinterpret_cast<CUgraph>(graph),
                       .originalGraph = cloned ? reinterpret_cast<CUgraph>(graph->original) : nullptr,
                       .node = reinterpret_cast<CUgraphNode>(node),
                       .originalNode = cloned ? reinterpret_cast<CUgraphNode>(node->original) : nullptr,
                       .nodeType = node->type};
  driver::announce(id, driver::current(), nullptr, &data);
}

Node* add_node(Graph* graph, CUgraphNodeType type, const Work& work) {
  auto* node = new Node{.id = driver::next_id() << 8, .type = type, .work = work};
  graph->nodes.push_back(node);
  tell_node(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, graph, node);
  return node;
}

Graph* clone(Graph* graph) {
  auto* made = new Graph{.original = graph};
  for (Node* original : graph->nodes) {
    auto* node = new Node{.id = driver::next_id() << 8, .type = original->type, .work = original->work, .original = original};
    made->nodes.push_back(node);
    // Both, as the real driver does.
    tell_node(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, made, node);
    tell_node(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, made, node);
    if (original->child) node->child = clone(original->child);
  }
  return made;
}

void replay(Graph* graph, Stream* stream) {
  for (Node* node : graph->nodes) {
    if (node->child) {
      replay(node->child, stream);
      continue;
    }
    Work work = node->work;
    work.node = node->heard ? node->id : 0;
    driver::perform(work, stream);
  }
}

// Done now, or put into the graph that the stream is being captured into.
CUresult put(const Work& work, CUgraphNodeType type, CUstream handle) {
  Stream* stream = driver::stream_of(handle);
  if (!stream || !driver::current()) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream->capturing)
    add_node(stream->capturing, type, work);
  else
    driver::perform(work, stream);
  return CUDA_SUCCESS;
}

// A launch of a kernel called `slow` takes long.
void linger(CUfunction function) {
  if (reinterpret_cast<Function*>(function)->name == "slow") std::this_thread::sleep_for(std::chrono::seconds(4));
}

Work kernel(CUfunction function, const Dimensions& dimensions) {
  auto* known = reinterpret_cast<Function*>(function);
  return {.kind = Work::KERNEL, .context = driver::current(), .end = known->duration, .function = known, .dimensions = dimensions};
}

CUresult move(Work::Kind kind, uint32_t detail, void* to, const void* from, size_t bytes, CUstream stream = nullptr) {
  if (!driver::stream_of(stream)->capturing) from ? memmove(to, from, bytes) : memset(to, 0, bytes);
  return put({.kind = kind, .detail = detail, .context = driver::current(), .end = kCopyTook, .bytes = bytes},
             kind == Work::SET ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY, stream);
}

void* host(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }
const char* name_of(CUfunction function) { return reinterpret_cast<Function*>(function)->name.c_str(); }

}  // namespace
}  // namespace fake

using namespace fake;
using driver::api;

API cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   CUstream stream, void** arguments, void** extra) {
  cuLaunchKernel_params parameters{function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra};
  auto run = [&] {
    linger(function);
    return put(kernel(function, {{gx, gy, gz}, {bx, by, bz}, shared}), CU_GRAPH_NODE_TYPE_KERNEL, stream);
  };
  return api(CBID(cuLaunchKernel), "cuLaunchKernel", &parameters, run, name_of(function));
}

API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  cuLaunchKernelEx_params parameters{config, function, arguments, extra};
  Dimensions dimensions{
      {config->gridDimX, config->gridDimY, config->gridDimZ}, {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes};
  auto run = [&] { return put(kernel(function, dimensions), CU_GRAPH_NODE_TYPE_KERNEL, config->hStream); };
  return api(CBID(cuLaunchKernelEx), "cuLaunchKernelEx", &parameters, run, name_of(function));
}

// Calls in a frame of another size each time, as a driver may have.
template <class Call>
__attribute__((noinline)) static CUresult below(size_t bytes, Call call) {
  auto* room = static_cast<volatile char*>(alloca(bytes + 16));
  CUresult result = call();
  *room = 0;
  return result;
}

API cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              CUstream stream, void** arguments) {
  cuLaunchCooperativeKernel_params parameters{function, gx, gy, gz, bx, by, bz, shared, stream, arguments};
  auto run = [&] {
    linger(function);
    return put(kernel(function, {{gx, gy, gz}, {bx, by, bz}, shared}), CU_GRAPH_NODE_TYPE_KERNEL, stream);
  };
  return below(16 * (gx % 100),
               [&] { return api(CBID(cuLaunchCooperativeKernel), "cuLaunchCooperativeKernel", &parameters, run, name_of(function)); });
}

API cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  cuMemcpyHtoD_v2_params parameters{to, from, bytes};
  return api(CBID(cuMemcpyHtoD_v2), "cuMemcpyHtoD_v2", &parameters,
             [&] { return move(Work::COPY, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, host(to), from, bytes); });
}

API cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  cuMemcpyHtoDAsync_v2_params parameters{to, from, bytes, stream};
  return api(CBID(cuMemcpyHtoDAsync_v2), "cuMemcpyHtoDAsync_v2", &parameters,
             [&] { return move(Work::COPY, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, host(to), from, bytes, stream); });
}

API cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  cuMemcpyDtoH_v2_params parameters{to, from, bytes};
  return api(CBID(cuMemcpyDtoH_v2), "cuMemcpyDtoH_v2", &parameters,
             [&] { return move(Work::COPY, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, to, host(from), bytes); });
}

API cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  cuMemcpyDtoDAsync_v2_params parameters{to, from, bytes, stream};
  return api(CBID(cuMemcpyDtoDAsync_v2), "cuMemcpyDtoDAsync_v2", &parameters,
             [&] { return move(Work::COPY, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, host(to), host(from), bytes, stream); });
}

API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return api(CBID(cuMemcpyPeerAsync), "cuMemcpyPeerAsync", nullptr,
             [&] { return move(Work::PEER_COPY, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, host(to), host(from), bytes, stream); });
}

API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  cuMemsetD8Async_params parameters{to, value, bytes, stream};
  return api(CBID(cuMemsetD8Async), "cuMemsetD8Async", &parameters, [&] { return move(Work::SET, 0, host(to), nullptr, bytes, stream); });
}

API cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  if (CUresult result = driver::usable()) return result;
  driver::stream_of(stream)->capturing = new Graph;
  return CUDA_SUCCESS;
}

API cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(driver::stream_of(stream)->capturing);
  driver::stream_of(stream)->capturing = nullptr;
  return driver::usable();
}

API cuGraphCreate(CUgraph* graph, unsigned) {
  *graph = reinterpret_cast<CUgraph>(new Graph);
  return driver::usable();
}

API cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS* how) {
  return api(CBID(cuGraphAddKernelNode_v2), "cuGraphAddKernelNode_v2", nullptr, [&] {
    Dimensions dimensions{{how->gridDimX, how->gridDimY, how->gridDimZ}, {how->blockDimX, how->blockDimY, how->blockDimZ}, how->sharedMemBytes};
    auto* known = reinterpret_cast<Graph*>(graph);
    *node = reinterpret_cast<CUgraphNode>(add_node(known, CU_GRAPH_NODE_TYPE_KERNEL, kernel(how->func, dimensions)));
    return CUDA_SUCCESS;
  });
}

API cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, CUgraph child) {
  return api(CBID(cuGraphAddChildGraphNode), "cuGraphAddChildGraphNode", nullptr, [&] {
    Node* made = add_node(reinterpret_cast<Graph*>(graph), CU_GRAPH_NODE_TYPE_GRAPH, {});
    made->child = clone(reinterpret_cast<Graph*>(child));
    *node = reinterpret_cast<CUgraphNode>(made);
    return CUDA_SUCCESS;
  });
}

API cuGraphInstantiateWithFlags(CUgraphExec* ready, CUgraph graph, unsigned long long) {
  return api(CBID(cuGraphInstantiateWithFlags), "cuGraphInstantiateWithFlags", nullptr, [&] {
    *ready = reinterpret_cast<CUgraphExec>(clone(reinterpret_cast<Graph*>(graph)));
    return CUDA_SUCCESS;
  });
}

API cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  cuGraphLaunch_params parameters{graph, stream};
  return api(CBID(cuGraphLaunch), "cuGraphLaunch", &parameters, [&] {
    replay(reinterpret_cast<Graph*>(graph), driver::stream_of(stream));
    return CUDA_SUCCESS;
  });
}
