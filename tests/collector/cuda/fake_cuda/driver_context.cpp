// Contexts: the current ones of each thread, and the primary one of each device.
#include "driver_api.hpp"

#include <map>

namespace fake {
namespace {

thread_local std::vector<Context*> stack;
std::map<int, Context*>& primaries = *new std::map<int, Context*>;

Context* make_context(int device) {
  auto* context = new Context{.id = static_cast<uint32_t>(driver::next_id()), .device = static_cast<uint32_t>(device)};
  context->default_stream.id = 7;
  return context;
}

void end_context(Context* context) {
  if (!context->alive) return;
  driver::announce(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, context, nullptr, nullptr);
  context->alive = false;
}

}  // namespace

namespace driver {

Context* current() { return stack.empty() || !stack.back() || !stack.back()->alive ? nullptr : stack.back(); }

}  // namespace driver
}  // namespace fake

using namespace fake;
using driver::api;
using driver::current;
using driver::Guard;
using driver::lock;

extern "C" __attribute__((visibility("default"))) CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return api(CBID(cuCtxCreate_v2), "cuCtxCreate_v2", nullptr, [&] {
    auto* made = make_context(device);
    *context = reinterpret_cast<CUcontext>(made);
    driver::announce(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, made, nullptr, nullptr);
    stack.push_back(made);
    return CUDA_SUCCESS;
  });
}

API cuCtxDestroy(CUcontext context) {
  return api(CBID(cuCtxDestroy_v2), "cuCtxDestroy_v2", nullptr, [&] {
    auto* known = reinterpret_cast<Context*>(context);
    if (!known->alive) return CUDA_ERROR_INVALID_CONTEXT;
    end_context(known);
    if (!stack.empty() && stack.back() == known) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

API cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(current());
  return driver::usable();
}

API cuCtxSetCurrent(CUcontext context) {
  if (CUresult result = driver::usable()) return result;
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}

API cuCtxPushCurrent(CUcontext context) {
  stack.push_back(reinterpret_cast<Context*>(context));
  return driver::usable();
}

API cuCtxPopCurrent(CUcontext* context) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = reinterpret_cast<CUcontext>(stack.back());
  stack.pop_back();
  return driver::usable();
}

API cuCtxGetDevice(CUdevice* device) {
  return api(CBID(cuCtxGetDevice), "cuCtxGetDevice", nullptr, [&] {
    if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
    *device = static_cast<int>(current()->device);
    return CUDA_SUCCESS;
  });
}

API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return api(CBID(cuDevicePrimaryCtxRetain), "cuDevicePrimaryCtxRetain", nullptr, [&] {
    Context* made = nullptr;
    {
      Guard guard(lock());
      Context*& primary = primaries[device];
      if (!primary || !primary->alive) made = primary = make_context(device);
      primary->primary_users++;
      *context = reinterpret_cast<CUcontext>(primary);
    }
    if (made) driver::announce(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, made, nullptr, nullptr);
    return CUDA_SUCCESS;
  });
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (CUresult result = driver::usable()) return result;
  Guard guard(lock());
  Context* primary = primaries[device];
  *flags = 0;
  *active = primary && primary->alive;
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRelease(CUdevice device) {
  return api(CBID(cuDevicePrimaryCtxRelease_v2), "cuDevicePrimaryCtxRelease_v2", nullptr, [&] {
    Context* primary = primaries[device];
    if (primary && --primary->primary_users == 0) end_context(primary);
    return CUDA_SUCCESS;
  });
}

API cuDevicePrimaryCtxReset(CUdevice device) {
  return api(CBID(cuDevicePrimaryCtxReset_v2), "cuDevicePrimaryCtxReset_v2", nullptr, [&] {
    if (Context* primary = primaries[device]) end_context(primary);
    return CUDA_SUCCESS;
  });
}
