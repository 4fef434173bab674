// The environment of a new program, with the variables restored by which the collector is loaded into it.
#pragma once
#include <cstddef>
#include <string_view>

namespace aiflame::hooks {

class ChildEnvironment {
 public:
  // Stores the environment with which this process was started, and the path of our library. Called once, at load.
  static void remember() noexcept;
  // Paths may soon lead elsewhere: finds the libraries that we need now. Returns the path of our own library.
  static const char* before_paths_change() noexcept;

  // `child`: the new program runs in a process of its own, even if this one is not a child itself. `first`: a library that it needs preloaded before
  // ours, empty for none; the text must stay as long as this object.
  ChildEnvironment(char* const* environment, bool child, std::string_view first) noexcept;

  // Memory for build(): the caller's stack if it is small, otherwise this thread's own block, which is kept for the next time (a vfork child could
  // not free it).
  size_t bytes() const noexcept { return bytes_; }
  bool small() const noexcept { return bytes_ <= 32 * 1024; }
  void* large() const noexcept;

  // The array to pass on. It is the caller's own if there is nothing to change or no memory.
  void* build(void* memory) const noexcept;

 private:
  enum class Change { NONE, ADD_US, REMOVE_US };
  char* write_preload(char* at) const noexcept;

  char* const* environment_;
  std::string_view first_, library_;
  Change change_;
  size_t count_ = 0, bytes_ = 0;
};

}  // namespace aiflame::hooks
