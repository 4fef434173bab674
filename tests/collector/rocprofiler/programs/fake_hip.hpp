// Functions of HIP, as programs see them.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
int hipInit(unsigned);
int hipMemcpy(void*, const void*, size_t, int);
int hipMemset2D(void*, size_t, int, size_t, size_t);
int hipStreamQuery(void*);
const char* hipGetErrorName(int);
int hipDeviceSynchronize();
int hipFree(void*);

struct hipDim {
  uint32_t x, y, z;
};
struct hipKernelNodeParams {
  hipDim block;
  void** extra;
  void* function;
  hipDim grid;
  void** arguments;
  unsigned shared;
};
// A kernel takes as many ns as it has bytes of shared memory.
int hipModuleGetFunction(void** function, void* module, const char* name);
int hipModuleLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared, void* stream, void**, void**);
int hipLaunchKernel(const void* function, hipDim grid, hipDim block, void** arguments, size_t shared, void* stream);
int hipStreamBeginCapture(void* stream, int mode);
int hipStreamEndCapture(void* stream, void** graph);
int hipEventRecord(void* event, void* stream);
int hipStreamWaitEvent(void* stream, void* event, unsigned flags);
int hipGraphAddKernelNode(void** node, void* graph, void* const* before, size_t count, const hipKernelNodeParams* parameters);
int hipGraphAddChildGraphNode(void** node, void* graph, void* const* before, size_t count, void* child);
int hipGraphInstantiate(void** executable, void* graph, void**, char*, size_t);
int hipGraphLaunch(void* executable, void* stream);
int hipGraphDestroy(void* graph);
int hipGraphExecDestroy(void* executable);
}
