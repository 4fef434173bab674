#include "hooks/opencl/calls.hpp"

#include "base/large.hpp"
#include "hooks/shared/caller.hpp"
#include "records/calls.hpp"

#include <array>
#include <new>
#include <string_view>
#include <utility>

namespace aiflame::opencl {

namespace {

// In the order of struct _cl_icd_dispatch (CL/cl_icd.h of Khronos' OpenCL-Headers). Empty: not traced, since it belongs to a graphics
// interface of another system.
constexpr const char* kNames[] = {
    "clGetPlatformIDs",
    "clGetPlatformInfo",
    "clGetDeviceIDs",
    "clGetDeviceInfo",
    "clCreateContext",
    "clCreateContextFromType",
    "clRetainContext",
    "clReleaseContext",
    "clGetContextInfo",
    "clCreateCommandQueue",
    "clRetainCommandQueue",
    "clReleaseCommandQueue",
    "clGetCommandQueueInfo",
    "clSetCommandQueueProperty",
    "clCreateBuffer",
    "clCreateImage2D",
    "clCreateImage3D",
    "clRetainMemObject",
    "clReleaseMemObject",
    "clGetSupportedImageFormats",
    "clGetMemObjectInfo",
    "clGetImageInfo",
    "clCreateSampler",
    "clRetainSampler",
    "clReleaseSampler",
    "clGetSamplerInfo",
    "clCreateProgramWithSource",
    "clCreateProgramWithBinary",
    "clRetainProgram",
    "clReleaseProgram",
    "clBuildProgram",
    "clUnloadCompiler",
    "clGetProgramInfo",
    "clGetProgramBuildInfo",
    "clCreateKernel",
    "clCreateKernelsInProgram",
    "clRetainKernel",
    "clReleaseKernel",
    "clSetKernelArg",
    "clGetKernelInfo",
    "clGetKernelWorkGroupInfo",
    "clWaitForEvents",
    "clGetEventInfo",
    "clRetainEvent",
    "clReleaseEvent",
    "clGetEventProfilingInfo",
    "clFlush",
    "clFinish",
    "clEnqueueReadBuffer",
    "clEnqueueWriteBuffer",
    "clEnqueueCopyBuffer",
    "clEnqueueReadImage",
    "clEnqueueWriteImage",
    "clEnqueueCopyImage",
    "clEnqueueCopyImageToBuffer",
    "clEnqueueCopyBufferToImage",
    "clEnqueueMapBuffer",
    "clEnqueueMapImage",
    "clEnqueueUnmapMemObject",
    "clEnqueueNDRangeKernel",
    "clEnqueueTask",
    "clEnqueueNativeKernel",
    "clEnqueueMarker",
    "clEnqueueWaitForEvents",
    "clEnqueueBarrier",
    "clGetExtensionFunctionAddress",
    "clCreateFromGLBuffer",
    "clCreateFromGLTexture2D",
    "clCreateFromGLTexture3D",
    "clCreateFromGLRenderbuffer",
    "clGetGLObjectInfo",
    "clGetGLTextureInfo",
    "clEnqueueAcquireGLObjects",
    "clEnqueueReleaseGLObjects",
    "clGetGLContextInfoKHR",
    "",
    "",
    "",
    "",
    "",
    "",
    "clSetEventCallback",
    "clCreateSubBuffer",
    "clSetMemObjectDestructorCallback",
    "clCreateUserEvent",
    "clSetUserEventStatus",
    "clEnqueueReadBufferRect",
    "clEnqueueWriteBufferRect",
    "clEnqueueCopyBufferRect",
    "clCreateSubDevicesEXT",
    "clRetainDeviceEXT",
    "clReleaseDeviceEXT",
    "clCreateEventFromGLsyncKHR",
    "clCreateSubDevices",
    "clRetainDevice",
    "clReleaseDevice",
    "clCreateImage",
    "clCreateProgramWithBuiltInKernels",
    "clCompileProgram",
    "clLinkProgram",
    "clUnloadPlatformCompiler",
    "clGetKernelArgInfo",
    "clEnqueueFillBuffer",
    "clEnqueueFillImage",
    "clEnqueueMigrateMemObjects",
    "clEnqueueMarkerWithWaitList",
    "clEnqueueBarrierWithWaitList",
    "clGetExtensionFunctionAddressForPlatform",
    "clCreateFromGLTexture",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "clCreateFromEGLImageKHR",
    "clEnqueueAcquireEGLObjectsKHR",
    "clEnqueueReleaseEGLObjectsKHR",
    "clCreateEventFromEGLSyncKHR",
    "clCreateCommandQueueWithProperties",
    "clCreatePipe",
    "clGetPipeInfo",
    "clSVMAlloc",
    "clSVMFree",
    "clEnqueueSVMFree",
    "clEnqueueSVMMemcpy",
    "clEnqueueSVMMemFill",
    "clEnqueueSVMMap",
    "clEnqueueSVMUnmap",
    "clCreateSamplerWithProperties",
    "clSetKernelArgSVMPointer",
    "clSetKernelExecInfo",
    "clGetKernelSubGroupInfoKHR",
    "clCloneKernel",
    "clCreateProgramWithIL",
    "clEnqueueSVMMigrateMem",
    "clGetDeviceAndHostTimer",
    "clGetHostTimer",
    "clGetKernelSubGroupInfo",
    "clSetDefaultDeviceCommandQueue",
    "clSetProgramReleaseCallback",
    "clSetProgramSpecializationConstant",
    "clCreateBufferWithProperties",
    "clCreateImageWithProperties",
    "clSetContextDestructorCallback",
};
constexpr uint32_t kCount = std::size(kNames);
static_assert(kCount == 149 && std::string_view(kNames[81]) == "clSetEventCallback" && std::string_view(kNames[140]) == "clGetDeviceAndHostTimer");

constexpr bool begins(std::string_view name, std::initializer_list<std::string_view> with) {
  for (std::string_view one : with)
    if (name.starts_with(one)) return true;
  return false;
}

// Functions that return an object, or nullptr, instead of an error.
constexpr bool gives_an_object(std::string_view name) {
  return begins(name, {"clCreate", "clLinkProgram", "clCloneKernel", "clEnqueueMapBuffer", "clEnqueueMapImage", "clSVMAlloc", "clGetExtension"}) &&
         !begins(name, {"clCreateKernelsInProgram", "clCreateSubDevices"});
}
constexpr bool gives_nothing(std::string_view name) { return name == "clSVMFree"; }

// Which argument says how many bytes are moved, counted from 0; -1: none.
constexpr int bytes_at(std::string_view name) {
  if (name == "clEnqueueReadBuffer" || name == "clEnqueueWriteBuffer" || name == "clEnqueueSVMMemcpy" || name == "clEnqueueSVMMemFill") return 4;
  if (name == "clEnqueueCopyBuffer" || name == "clEnqueueFillBuffer" || name == "clEnqueueMapBuffer") return 5;
  return -1;
}

// All arguments of OpenCL are integers and pointers, at most 14 of them: a word each, whatever the function. Words past a function's last
// argument come from its caller's stack.
using Words = std::array<uint64_t, 14>;
using AnyFunction = uint64_t(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t);

AIFLAME_LARGE AnyFunction* below[kCount];
thread_local const Registers* outer;

// Constructed when the table first leads to us: with constants here, the dynamic linker would touch this memory in every process.
union Lazy {
  constexpr Lazy() noexcept : none(0) {}
  uint64_t none;
  calls::Function function;
};
AIFLAME_LARGE constinit Lazy functions[kCount];

template <size_t kIndex>
uint64_t traced(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k,
                uint64_t l, uint64_t m, uint64_t n) noexcept {
  constexpr std::string_view kName = kNames[kIndex];
  constexpr int kBytesAt = bytes_at(kName);
  Registers from = hooks::caller();
  const Registers* before = outer;
  outer = &from;
  calls::Begun begun = calls::begin(from, calls::Stack::ON_REQUEST);
  uint64_t result = below[kIndex](a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  outer = before;
  auto code = static_cast<int32_t>(result);
  bool failed = gives_an_object(kName) ? result == 0 : !gives_nothing(kName) && code != 0;
  uint64_t bytes = 0;
  if constexpr (kBytesAt >= 0) bytes = Words{a, b, c, d, e, f, g, h, i, j, k, l, m, n}[kBytesAt];
  calls::end(begun, functions[kIndex].function,
             {.result = gives_an_object(kName) || gives_nothing(kName) ? 0 : code, .failed = failed, .bytes = bytes});
  return result;
}

template <size_t kIndex>
void trace(const void** entries, uint32_t count) noexcept {
  if (kIndex >= count || !*kNames[kIndex] || !entries[kIndex]) return;
  if (!below[kIndex]) new (&functions[kIndex].function) calls::Function(schema::CallBackend::OPENCL, kNames[kIndex]);
  below[kIndex] = reinterpret_cast<AnyFunction*>(const_cast<void*>(entries[kIndex]));
  entries[kIndex] = reinterpret_cast<const void*>(traced<kIndex>);
}

}  // namespace

void trace_calls(const void** entries, uint32_t count) noexcept {
  [&]<size_t... Index>(std::index_sequence<Index...>) { (trace<Index>(entries, count), ...); }(std::make_index_sequence<kCount>());
}

const Registers& program_caller(const Registers& here) noexcept { return outer ? *outer : here; }

}  // namespace aiflame::opencl
