// Streams, events, captures, and the waits for them.
#include "driver_api.hpp"

#include <unistd.h>
#include <algorithm>

namespace fake {
namespace {

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t busy_until(Context* context) {
  driver::Guard guard(driver::lock());
  auto until = [](uint64_t end) { return end == kNever ? 0 : end; };
  uint64_t latest = until(context->default_stream.busy_until);
  for (Stream* stream : context->streams) latest = std::max(latest, until(stream->busy_until));
  return latest;
}

}  // namespace

namespace driver {

Stream* stream_of(CUstream handle) {
  if (reinterpret_cast<uintptr_t>(handle) > 2) return reinterpret_cast<Stream*>(handle);
  return current() ? &current()->default_stream : nullptr;
}

bool may_break_captures() { return capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED; }

void wait_until(uint64_t end) {
  while (end != kNever && driver::now() < end) usleep(20);
}

}  // namespace driver
}  // namespace fake

using namespace fake;
using driver::api;
using driver::current;
using driver::Guard;
using driver::lock;

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return api(CBID(cuThreadExchangeStreamCaptureMode), "cuThreadExchangeStreamCaptureMode", nullptr, [&] {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
  });
}

API cuCtxSynchronize() {
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  return api(CBID(cuCtxSynchronize), "cuCtxSynchronize", nullptr, [&] {
    driver::wait_until(busy_until(current()));
    return CUDA_SUCCESS;
  });
}

API cuStreamCreate(CUstream* stream, unsigned) {
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  Guard guard(lock());
  auto* made = new Stream{.id = static_cast<uint32_t>(driver::next_id()) + 100};
  current()->streams.push_back(made);
  *stream = reinterpret_cast<CUstream>(made);
  return driver::usable();
}

API cuStreamSynchronize(CUstream stream) {
  cuStreamSynchronize_params parameters{stream};
  return api(CBID(cuStreamSynchronize), "cuStreamSynchronize", &parameters, [&] {
    driver::wait_until(driver::stream_of(stream)->busy_until);
    return CUDA_SUCCESS;
  });
}

// Of a program whose default stream is each thread's own. The fake does its work in the context's.
extern "C" __attribute__((visibility("default"))) CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  cuStreamSynchronize_ptsz_params parameters{stream};
  return api(CBID(cuStreamSynchronize_ptsz), "cuStreamSynchronize_ptsz", &parameters, [&] {
    driver::wait_until(driver::stream_of(stream)->busy_until);
    return CUDA_SUCCESS;
  });
}

API cuStreamQuery(CUstream stream) {
  cuStreamQuery_params parameters{stream};
  return api(CBID(cuStreamQuery), "cuStreamQuery", &parameters, [&] {
    Guard guard(lock());
    return driver::stream_of(stream)->busy_until > driver::now() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  });
}

API cuEventCreate(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(new Event);
  return driver::usable();
}

API cuEventRecord(CUevent event, CUstream stream) {
  Guard guard(lock());
  reinterpret_cast<Event*>(event)->done_at = driver::stream_of(stream)->busy_until;
  return driver::usable();
}

API cuEventSynchronize(CUevent event) {
  cuEventSynchronize_params parameters{event};
  return api(CBID(cuEventSynchronize), "cuEventSynchronize", &parameters, [&] {
    driver::wait_until(reinterpret_cast<Event*>(event)->done_at);
    return CUDA_SUCCESS;
  });
}
