#include "hooks/cuda/physical_memory.hpp"

#include "base/clock.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/internal.hpp"
#include "spool/spool.hpp"

namespace aiflame::cuda::physical_memory {

namespace {

using schema::PhysicalMemoryKind;

template <class Parameters>
const Parameters& parameters_of(const CUpti_CallbackData& data) noexcept {
  return *static_cast<const Parameters*>(data.functionParams);
}

bool succeeded(const CUpti_CallbackData& data) noexcept {
  return data.functionParams && data.functionReturnValue && *static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS;
}

schema::PhysicalMemory row(PhysicalMemoryKind kind, const CUpti_CallbackData& data, uint64_t time_ns) noexcept {
  return {.kind = static_cast<uint32_t>(kind),
          .api = static_cast<uint32_t>(schema::GpuApi::CUDA),
          .correlation = correlation(data.correlationId),
          .time_ns = time_ns};
}

void write_created(const CUpti_CallbackData& data) noexcept {
  auto& created = parameters_of<cuMemCreate_params>(data);
  bool on_device = created.prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  schema::PhysicalMemory one = row(PhysicalMemoryKind::CREATE, data, now_ns());
  one.memory = static_cast<uint32_t>(on_device ? schema::MemoryKind::DEVICE : schema::MemoryKind::HOST);
  if (on_device) one.device = device_text(static_cast<uint32_t>(created.prop->location.id));
  one.handle = *created.handle;
  one.bytes = created.size;
  spool::append(one);
}

void write_of_handle(PhysicalMemoryKind kind, const CUpti_CallbackData& data, uint64_t handle, uint64_t time_ns) noexcept {
  schema::PhysicalMemory one = row(kind, data, time_ns);
  one.handle = handle;
  spool::append(one);
}

void write_range(PhysicalMemoryKind kind, const CUpti_CallbackData& data, uint64_t handle, uint64_t address, uint64_t bytes,
                 uint64_t time_ns) noexcept {
  schema::PhysicalMemory one = row(kind, data, time_ns);
  one.handle = handle;
  one.address = address;
  one.bytes = bytes;
  spool::append(one);
}

}  // namespace

void write(CUpti_CallbackId id, const CUpti_CallbackData& data, uint64_t begin_ns) noexcept {
  if (!succeeded(data)) return;
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemCreate:
      return write_created(data);
    case CUPTI_DRIVER_TRACE_CBID_cuMemImportFromShareableHandle:
      return write_of_handle(PhysicalMemoryKind::IMPORT, data, *parameters_of<cuMemImportFromShareableHandle_params>(data).handle, now_ns());
    case CUPTI_DRIVER_TRACE_CBID_cuMemRetainAllocationHandle:
      return write_of_handle(PhysicalMemoryKind::RETAIN, data, *parameters_of<cuMemRetainAllocationHandle_params>(data).handle, now_ns());
    // Another thread may get a handle or an address that is given back before the call returns: these rows have the time of its begin.
    case CUPTI_DRIVER_TRACE_CBID_cuMemRelease:
      return write_of_handle(PhysicalMemoryKind::RELEASE, data, parameters_of<cuMemRelease_params>(data).handle, begin_ns);
    case CUPTI_DRIVER_TRACE_CBID_cuMemMap: {
      auto& mapped = parameters_of<cuMemMap_params>(data);
      return write_range(PhysicalMemoryKind::MAP, data, mapped.handle, mapped.ptr, mapped.size, now_ns());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemUnmap: {
      auto& range = parameters_of<cuMemUnmap_params>(data);
      return write_range(PhysicalMemoryKind::UNMAP, data, 0, range.ptr, range.size, begin_ns);
    }
    default:
      return;
  }
}

}  // namespace aiflame::cuda::physical_memory
