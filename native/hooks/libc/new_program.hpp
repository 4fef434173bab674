// Properties of a program about to be executed that matter for loading our library into it.
#pragma once
#include "base/sys.hpp"

#include <string_view>

namespace aiflame::hooks {

// Reads the file once. Writes only to our tables, so a vfork child may use it.
class NewProgram {
 public:
  // `search` is a PATH in which `file` is looked up, nullptr if `file` is a path.
  NewProgram(const char* file, const char* search) noexcept;
  // An open file, as fexecve() takes it.
  explicit NewProgram(int fd) noexcept;

  // Writes a note, once for each program, if it cannot be recorded: it is statically linked, or set-user-id.
  void tell_if_unreachable() const noexcept;

  // The sanitizer's runtime with which the program is linked, by the name that the dynamic linker looks up. Such a library ends the program unless it
  // is loaded first. Empty: none.
  std::string_view first_library() const noexcept { return first_; }

 private:
  void look(long fd) noexcept;
  void look_at_interpreter(const char* line) noexcept;
  bool find_first_library(long fd, const char* head, long bytes) noexcept;

  static constexpr size_t kLongestPath = 1024;
  char path_[kLongestPath];
  char name_[64];
  std::string_view first_;
  const char* obstacle_ = nullptr;
};

// True if a library file has the name of a sanitizer's runtime.
bool is_sanitizer(std::string_view library) noexcept;

}  // namespace aiflame::hooks
