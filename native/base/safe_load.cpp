#include "base/safe_load.hpp"

namespace aiflame {

namespace {
struct Load {
  int32_t to_instruction;  // from this field
  uint32_t length;
};
}  // namespace

// The linker's own names for the ends of a section whose name is an identifier.
extern "C" __attribute__((visibility("hidden"))) const Load __start_aiflame_loads[], __stop_aiflame_loads[];

uint64_t safe_load_resume(uint64_t pc) noexcept {
  for (const Load* load = __start_aiflame_loads; load < __stop_aiflame_loads; load++) {
    uint64_t instruction = reinterpret_cast<uint64_t>(load) + static_cast<uint64_t>(static_cast<int64_t>(load->to_instruction));
    if (instruction == pc) return pc + load->length;
  }
  return 0;
}

}  // namespace aiflame
