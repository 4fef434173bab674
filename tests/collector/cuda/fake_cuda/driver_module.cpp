// Modules with their functions, and the device's memory.
#include "driver_api.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

namespace fake {
namespace {

constexpr size_t kMemory = size_t{1} << 40;

std::map<std::string, uint64_t>& durations = *new std::map<std::string, uint64_t>;

size_t image_bytes(const char* image) {
  if (memcmp(image,
             "\x7f"
             "ELF",
             4) != 0)
    return strlen(image);
  uint64_t sections;
  uint16_t size, count;
  memcpy(&sections, image + 40, 8);
  memcpy(&size, image + 58, 2);
  memcpy(&count, image + 60, 2);
  return sections + uint64_t{size} * count;
}

CUresult load(CUmodule* module, const void* image) {
  if (!driver::current()) return CUDA_ERROR_INVALID_CONTEXT;
  auto* bytes = static_cast<const char*>(image);
  auto* made = new Module{
      .id = static_cast<uint32_t>(driver::next_id()), .crc = 0, .image = std::string(bytes, image_bytes(bytes)), .context = driver::current()};
  *module = reinterpret_cast<CUmodule>(made);
  CUpti_ModuleResourceData data{.moduleId = made->id, .cubinSize = made->image.size(), .pCubin = made->image.data()};
  driver::announce(CUPTI_CBID_RESOURCE_MODULE_LOADED, made->context, nullptr, &data);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace fake

using namespace fake;
using driver::api;
using driver::Guard;
using driver::lock;

// Kernels of this name take so long from here on; kNever: they never complete.
extern "C" __attribute__((visibility("default"))) void fake_kernel_duration(const char* function, uint64_t ns) {
  Guard guard(lock());
  durations[function] = ns;
}

API cuModuleLoadData(CUmodule* module, const void* image) {
  cuModuleLoadData_params parameters{module, image};
  return api(CBID(cuModuleLoadData), "cuModuleLoadData", &parameters, [&] { return load(module, image); });
}

API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return api(CBID(cuModuleLoadDataEx), "cuModuleLoadDataEx", nullptr, [&] { return load(module, image); });
}

API cuModuleUnload(CUmodule module) {
  return api(CBID(cuModuleUnload), "cuModuleUnload", nullptr, [&] {
    auto* known = reinterpret_cast<Module*>(module);
    CUpti_ModuleResourceData data{.moduleId = known->id, .cubinSize = known->image.size(), .pCubin = known->image.data()};
    driver::announce(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, known->context, nullptr, &data);
    memset(known->image.data(), 0, known->image.size());  // a client without a copy has nothing
    return CUDA_SUCCESS;
  });
}

API cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (CUresult result = driver::usable()) return result;
  Guard guard(lock());
  auto known = durations.find(name);
  uint64_t duration = known == durations.end() ? 10'000 : known->second;
  *function = reinterpret_cast<CUfunction>(new Function{.name = name, .module = reinterpret_cast<Module*>(module), .duration = duration});
  return CUDA_SUCCESS;
}

namespace {

void tell(CUpti_ActivityMemoryOperationType operation, uint64_t address, size_t bytes, bool pinned) {
  uint64_t now = driver::now();
  driver::perform({.kind = Work::MEMORY, .detail = operation, .start = now, .end = now, .bytes = bytes, .address = address, .pinned = pinned},
                  nullptr);
}

}  // namespace

API cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  cuMemAlloc_v2_params parameters{pointer, bytes};
  return api(CBID(cuMemAlloc_v2), "cuMemAlloc_v2", &parameters, [&] {
    *pointer = bytes > kMemory ? 0 : reinterpret_cast<CUdeviceptr>(calloc(1, bytes));
    if (!*pointer) return CUDA_ERROR_OUT_OF_MEMORY;
    tell(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, *pointer, bytes, false);
    return CUDA_SUCCESS;
  });
}

API cuMemFree(CUdeviceptr pointer) {
  cuMemFree_v2_params parameters{pointer};
  return api(CBID(cuMemFree_v2), "cuMemFree_v2", &parameters, [&] {
    free(reinterpret_cast<void*>(pointer));
    tell(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, pointer, 0, false);
    return CUDA_SUCCESS;
  });
}

API cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  cuMemHostAlloc_params parameters{pointer, bytes, flags};
  return api(CBID(cuMemHostAlloc), "cuMemHostAlloc", &parameters, [&] {
    *pointer = calloc(1, bytes);
    tell(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, reinterpret_cast<uint64_t>(*pointer), bytes, true);
    return CUDA_SUCCESS;
  });
}

API cuMemFreeHost(void* pointer) {
  cuMemFreeHost_params parameters{pointer};
  return api(CBID(cuMemFreeHost), "cuMemFreeHost", &parameters, [&] {
    free(pointer);
    tell(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, reinterpret_cast<uint64_t>(pointer), 0, true);
    return CUDA_SUCCESS;
  });
}
