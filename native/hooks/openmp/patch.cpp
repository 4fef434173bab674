// Libraries that were bound to an OpenMP runtime before we came: their calls to its functions are led to ours.
#include "hooks/openmp/openmp.hpp"
#include "hooks/openmp/runtimes.hpp"
#include "hooks/shared/late_binding.hpp"

#include <cstring>

extern "C" {
void GOMP_parallel();
void GOMP_parallel_reductions();
void GOMP_parallel_sections();
void GOMP_parallel_loop_static();
void GOMP_parallel_loop_dynamic();
void GOMP_parallel_loop_guided();
void GOMP_parallel_loop_runtime();
void GOMP_parallel_loop_nonmonotonic_dynamic();
void GOMP_parallel_loop_nonmonotonic_guided();
void GOMP_parallel_loop_nonmonotonic_runtime();
void GOMP_parallel_loop_maybe_nonmonotonic_runtime();
}

namespace aiflame::openmp {

namespace {

void* ours(const char* name) noexcept {
  static constexpr void (*kOurs[ENTRIES])() = {
      GOMP_parallel,
      GOMP_parallel_reductions,
      GOMP_parallel_sections,
      GOMP_parallel_loop_static,
      GOMP_parallel_loop_dynamic,
      GOMP_parallel_loop_guided,
      GOMP_parallel_loop_runtime,
      GOMP_parallel_loop_nonmonotonic_dynamic,
      GOMP_parallel_loop_nonmonotonic_guided,
      GOMP_parallel_loop_nonmonotonic_runtime,
      GOMP_parallel_loop_maybe_nonmonotonic_runtime,
  };
  for (uint32_t entry = 0; entry < ENTRIES; entry++)
    if (strcmp(name, kEntryNames[entry]) == 0) return reinterpret_cast<void*>(kOurs[entry]);
  return nullptr;
}

}  // namespace

void patch_callers() noexcept { hooks::lead_callers("GOMP_parallel", ours); }

}  // namespace aiflame::openmp
