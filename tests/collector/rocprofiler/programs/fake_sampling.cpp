// The stand-in's service of samples: how a GPU can be sampled, and which way the tool has chosen.
#include "fake_state.hpp"

#include <cstdlib>
#include <vector>

using namespace fake;

namespace {

bool configured_elsewhere = false, asked_once = false;

}  // namespace

#define SDK extern "C" __attribute__((visibility("default"))) int

struct Choice {
  uint64_t size;
  int method, unit;
  size_t least, most;
  uint64_t flags;
};

SDK rocprofiler_query_pc_sampling_agent_configurations(Id agent, int (*callback)(const Choice*, size_t, void*), void* data) {
  if (!getenv("ROCPROFILER_PC_SAMPLING_BETA_ENABLED")) return NOT_BUILT;
  if (!is_gpu(agent.handle) && agent.handle != kCpu) return violates("no such agent", NO_AGENT);
  if (is("old_kernel")) return OLD_KERNEL;
  std::vector<Choice> choices;
  if (is_gpu(agent.handle) && configured_elsewhere) {
    choices.push_back({sizeof(Choice), 1, 2, 1 << 18, 1 << 18, 1});
  } else if (is_gpu(agent.handle)) {
    if (is("host_trap")) choices.push_back({sizeof(Choice), 2, 3, 1, 100'000, 0});
    if (is("stochastic")) choices.push_back({sizeof(Choice), 1, 2, 256, 1 << 22, 1});
  }
  asked_once = true;
  return callback(choices.data(), choices.size(), data);
}

SDK rocprofiler_configure_pc_sampling_service(Id context, Id agent, int method, int unit, uint64_t interval, Id buffer, int) {
  if (!getenv("ROCPROFILER_PC_SAMPLING_BETA_ENABLED")) return NOT_BUILT;
  if (!may_configure()) return violates("configured after initialization", LOCKED);
  if (!is_gpu(agent.handle)) return violates("no such GPU", NO_AGENT);
  if (!is_context(context.handle)) return violates("no such context", NO_CONTEXT);
  if (!is_buffer(buffer.handle)) return violates("no such buffer", NO_BUFFER);
  if (!asked_once) return violates("configured without a question", INVALID);
  if (is("busy") && !configured_elsewhere) {
    configured_elsewhere = true;
    return NOT_AVAILABLE;
  }
  if (samplings.count(agent.handle)) return violates("a second configuration", ALREADY);
  for (const auto& [other, sampling] : samplings)
    if (sampling.context != context.handle) return violates("a second context that samples", ERROR);
  bool trap = method == 2 && unit == 3 && is("host_trap"), hardware = method == 1 && unit == 2 && is("stochastic");
  if (!trap && !hardware) return violates("a method that the GPU lacks", NOT_AVAILABLE);
  if (configured_elsewhere && interval != 1 << 18) return violates("not the other process's interval", NOT_AVAILABLE);
  if (trap && (interval < 1 || interval > 100'000)) return violates("an interval that was not offered", INVALID);
  if (hardware && (interval < 256 || interval > 1 << 22 || (interval & (interval - 1)))) return violates("an interval that was not offered", INVALID);
  samplings[agent.handle] = {context.handle, buffer.handle, method};
  samples_in(context.handle);
  return OK;
}
