// Virtual memory management, by the rules of the vendor's header: physical memory is free when no reference to its handle and no mapping is left.
// The vendor's also waits until descriptors are closed that were exported for it; this one does not see them closed.
#include "driver_api.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

namespace fake {
namespace {

constexpr size_t kGranularity = 2 << 20;

struct Physical {
  size_t bytes;
  int references = 1, mappings = 0;
};
struct Mapping {
  Physical* memory;
  CUmemGenericAllocationHandle handle;
};

// The number of memory is its handle; a file descriptor stands for it outside.
std::map<CUmemGenericAllocationHandle, Physical>& memories = *new std::map<CUmemGenericAllocationHandle, Physical>;
std::map<CUdeviceptr, Mapping>& mapped = *new std::map<CUdeviceptr, Mapping>;
std::map<CUdeviceptr, size_t>& reserved = *new std::map<CUdeviceptr, size_t>;
std::map<ino_t, CUmemGenericAllocationHandle>& exported = *new std::map<ino_t, CUmemGenericAllocationHandle>;
CUmemGenericAllocationHandle last_handle = 0x7000;

Physical* alive(CUmemGenericAllocationHandle handle) {
  auto known = memories.find(handle);
  return known == memories.end() ? nullptr : &known->second;
}

void free_if_unused(CUmemGenericAllocationHandle handle) {
  Physical* one = alive(handle);
  if (!one->references && !one->mappings) memories.erase(handle);
}

// The range lies in one reservation, and nothing is mapped there.
bool may_map(CUdeviceptr address, size_t size) {
  auto behind = reserved.upper_bound(address);
  if (behind == reserved.begin()) return false;
  auto [first, bytes] = *--behind;
  if (address + size > first + bytes) return false;
  auto next = mapped.lower_bound(address);
  if (next != mapped.end() && next->first < address + size) return false;
  return next == mapped.begin() || std::prev(next)->first + std::prev(next)->second.memory->bytes <= address;
}

ino_t inode(int descriptor) {
  struct stat about{};
  return fstat(descriptor, &about) ? 0 : about.st_ino;
}

}  // namespace
}  // namespace fake

using namespace fake;
using driver::api;
using driver::Guard;
using driver::lock;

// Bytes of all memory that is not free.
extern "C" __attribute__((visibility("default"))) uint64_t fake_physical_bytes() {
  Guard guard(lock());
  uint64_t bytes = 0;
  for (auto& [handle, one] : memories) bytes += one.bytes;
  return bytes;
}

API cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr near, unsigned long long flags) {
  cuMemAddressReserve_params parameters{address, size, alignment, near, flags};
  return api(CBID(cuMemAddressReserve), "cuMemAddressReserve", &parameters, [&] {
    Guard guard(lock());
    void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    reserved[*address = reinterpret_cast<CUdeviceptr>(range)] = size;
    return CUDA_SUCCESS;
  });
}

API cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* property, unsigned long long flags) {
  cuMemCreate_params parameters{handle, size, property, flags};
  return api(CBID(cuMemCreate), "cuMemCreate", &parameters, [&] {
    Guard guard(lock());
    if (!size || size % kGranularity || property->type != CU_MEM_ALLOCATION_TYPE_PINNED || flags) return CUDA_ERROR_INVALID_VALUE;
    if (size > size_t{1} << 40) return CUDA_ERROR_OUT_OF_MEMORY;
    memories[*handle = ++last_handle] = {.bytes = size};
    return CUDA_SUCCESS;
  });
}

API cuMemRelease(CUmemGenericAllocationHandle handle) {
  cuMemRelease_params parameters{handle};
  return api(CBID(cuMemRelease), "cuMemRelease", &parameters, [&] {
    Guard guard(lock());
    Physical* one = alive(handle);
    if (!one || !one->references) wrong("cuMemRelease: no such handle");
    one->references--;
    free_if_unused(handle);
    return CUDA_SUCCESS;
  });
}

API cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  cuMemMap_params parameters{address, size, offset, handle, flags};
  return api(CBID(cuMemMap), "cuMemMap", &parameters, [&] {
    Guard guard(lock());
    Physical* one = alive(handle);
    if (!one || !one->references || offset || flags || size != one->bytes || !may_map(address, size)) return CUDA_ERROR_INVALID_VALUE;
    mapped[address] = {one, handle};
    one->mappings++;
    return CUDA_SUCCESS;
  });
}

// A range may be that of several mappings, but of no part of one.
API cuMemUnmap(CUdeviceptr address, size_t size) {
  cuMemUnmap_params parameters{address, size};
  return api(CBID(cuMemUnmap), "cuMemUnmap", &parameters, [&] {
    Guard guard(lock());
    CUdeviceptr at = address;
    for (auto one = mapped.find(at); one != mapped.end() && one->first == at && at < address + size; ++one) at += one->second.memory->bytes;
    if (!size || at != address + size) return CUDA_ERROR_INVALID_VALUE;
    for (auto one = mapped.find(address); one != mapped.end() && one->first < address + size; one = mapped.erase(one)) {
      one->second.memory->mappings--;
      free_if_unused(one->second.handle);
    }
    return CUDA_SUCCESS;
  });
}

API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  cuMemRetainAllocationHandle_params parameters{handle, address};
  return api(CBID(cuMemRetainAllocationHandle), "cuMemRetainAllocationHandle", &parameters, [&] {
    Guard guard(lock());
    auto at = reinterpret_cast<CUdeviceptr>(address);
    auto behind = mapped.upper_bound(at);
    if (behind == mapped.begin()) return CUDA_ERROR_INVALID_VALUE;
    auto& [first, mapping] = *--behind;
    if (at >= first + mapping.memory->bytes) return CUDA_ERROR_INVALID_VALUE;
    *handle = mapping.handle;
    mapping.memory->references++;
    return CUDA_SUCCESS;
  });
}

API cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
  cuMemExportToShareableHandle_params parameters{shared, handle, type, flags};
  return api(CBID(cuMemExportToShareableHandle), "cuMemExportToShareableHandle", &parameters, [&] {
    Guard guard(lock());
    if (!alive(handle) || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags) return CUDA_ERROR_INVALID_VALUE;
    int descriptor = memfd_create("physical memory", MFD_CLOEXEC);
    exported[inode(descriptor)] = handle;
    *static_cast<int*>(shared) = descriptor;
    return CUDA_SUCCESS;
  });
}

// Memory of another process has a handle of its own here, and is the other's; that of this process has one more reference.
API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared, CUmemAllocationHandleType type) {
  cuMemImportFromShareableHandle_params parameters{handle, shared, type};
  return api(CBID(cuMemImportFromShareableHandle), "cuMemImportFromShareableHandle", &parameters, [&] {
    Guard guard(lock());
    auto known = exported.find(inode(static_cast<int>(reinterpret_cast<intptr_t>(shared))));
    if (known == exported.end() || !alive(known->second)) return CUDA_ERROR_INVALID_VALUE;
    *handle = known->second;
    alive(known->second)->references++;
    return CUDA_SUCCESS;
  });
}
