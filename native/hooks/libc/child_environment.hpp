// The environment of a new program, with the variables put back that bring us into it.
#pragma once
#include <cstddef>
#include <string_view>

namespace aiflame::hooks {

class ChildEnvironment {
 public:
  // Keeps the environment that this process was started with, and where our library is. Once, at load.
  static void remember() noexcept;
  // Paths may lead elsewhere soon: looks at once where the libraries lie that we need. The path of our own.
  static const char* before_paths_change() noexcept;

  // `child`: the new program runs in a process of its own even when this one is not a child itself. `first`: a library that it needs
  // preloaded in front of us, empty for none; it must stay as long as this lives.
  ChildEnvironment(char* const* environment, bool child, std::string_view first) noexcept;

  // Memory for build(): the caller's stack when small, else this thread's own block, which is kept for the next time (a vfork child
  // could not give it back).
  size_t bytes() const noexcept { return bytes_; }
  bool small() const noexcept { return bytes_ <= 32 * 1024; }
  void* large() const noexcept;

  // The array to hand on. The caller's own when there is nothing to change or no memory.
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
