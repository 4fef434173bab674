#include "all_hooks.hpp"

#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/sharing.hpp"
#include "hooks/jax/jit_calls.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/opencl/opencl.hpp"
#include "hooks/openmp/openmp.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/python/functions.hpp"
#include "hooks/regions/regions.hpp"
#include "hooks/stand_in/level_zero.hpp"
#include "hooks/torch/python_functions.hpp"

namespace aiflame::all_hooks {

void prepare(bool preloaded) noexcept {
  hooks::resolve();
  if (!preloaded) {
    openmp::patch_callers();
    cuda::sharing::lead_callers();
  }
  bridge::prepare();
}

void start() noexcept {
  cuda::start();
  bridge::start();
}

void resume() noexcept { cuda::start(); }

void finish() noexcept { cuda::stop(); }

void flush_anywhere() noexcept { cuda::flush_anywhere(); }

void forget_rows() noexcept {
  bridge::forget_rows();
  cuda::forget_rows();
  opencl::forget_rows();
  level_zero::forget_rows();
  regions::forget_rows();
}

void after_fork_child() noexcept {
  cuda::after_fork_child();
  level_zero::after_fork_child();
}

void tick(uint64_t now, uint64_t pc) noexcept { bridge::poke_in_tick(now, pc); }

}  // namespace aiflame::all_hooks

bool aiflame::bridge::add_functions_of_others(Object module) noexcept {
  return torch::add_python_functions(module) && jax::add_python_functions(module);
}
