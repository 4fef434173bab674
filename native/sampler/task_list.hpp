// The threads of the process, as the kernel lists them.
#pragma once
#include "base/scratch.hpp"

#include <cstdint>
#include <span>

namespace aiflame {

// The list is read completely, with little stack, and no descriptor is open while it is used. Safe in a handler.
class TaskList {
 public:
  TaskList() noexcept;
  bool complete() const noexcept { return complete_; }
  std::span<const uint32_t> tids() const noexcept { return {reinterpret_cast<const uint32_t*>(scratch_.data()), count_}; }

 private:
  Scratch scratch_;
  size_t count_ = 0;
  bool complete_ = false;
};

// False also if the kernel does not say.
bool is_single_threaded() noexcept;

// /proc/self/task/TID/FILE into `out`; its length, or an error number below zero.
long read_task_file(uint32_t tid, const char* file, char* out, size_t room) noexcept;

// The name of a thread of this process into `out`; its length, 0 if the thread has ended.
size_t task_name(uint32_t tid, char* out, size_t room) noexcept;

}  // namespace aiflame
