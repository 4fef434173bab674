// Programs that no library can be loaded into.
#pragma once

namespace aiflame::hooks {

// Notes, once a program, that a new process will not be recorded: it is statically linked, or set-user-id. `search` is a PATH to find
// `file` in, nullptr for a path as it stands. Touches nothing but the tables: a vfork child may call it.
void tell_if_unreachable(const char* file, const char* search) noexcept;

}  // namespace aiflame::hooks
