// Programs started by exec are recorded too, even with an environment that lacks our variables: ours from this process's start are put
// back.
//
// Everything here may run in a vfork child, on its parent's memory: no malloc, and nothing is written that the parent would miss.
#include "collector.hpp"
#include "hooks/libc/child_environment.hpp"
#include "hooks/libc/new_program.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/signals.hpp"

#include <alloca.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace aiflame::hooks {

namespace {

using Strings = char* const*;
Real<int(const char*, Strings, Strings), "execve"> real_execve;
Real<int(const char*, Strings, Strings), "execvpe"> real_execvpe;
Real<int(int, Strings, Strings), "fexecve"> real_fexecve;
Real<int(int, const char*, Strings, Strings, int), "execveat"> real_execveat;
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, Strings, Strings);
Real<Spawn, "posix_spawn"> real_posix_spawn;
Real<Spawn, "posix_spawnp"> real_posix_spawnp;

// Calls `exec` with the environment for a program that replaces this one (or its vfork child's copy); comes back only on failure.
template <class Exec>
__attribute__((always_inline)) inline int replace(char* const* environment, const NewProgram& program, Exec exec) noexcept {
  program.tell_if_unreachable();
  ChildEnvironment wanted(environment, false, program.first_library());
  char** built = static_cast<char**>(wanted.build(wanted.small() ? alloca(wanted.bytes()) : wanted.large()));
  bool own = own_process();
  if (own) collector::before_exec();
  int result;
  {
    signals::TrueFace face;
    result = exec(built);
  }
  int error = errno;
  if (own) collector::after_failed_exec();
  errno = error;
  return result;
}

template <class Start>
__attribute__((always_inline)) inline int start_child(char* const* environment, const NewProgram& program, Start spawn) noexcept {
  program.tell_if_unreachable();
  ChildEnvironment wanted(environment, true, program.first_library());
  char** built = static_cast<char**>(wanted.build(wanted.small() ? alloca(wanted.bytes()) : wanted.large()));
  signals::TrueFace face;
  return spawn(built);
}

size_t count_arguments(va_list list) noexcept {
  size_t count = 1;
  while (va_arg(list, char*)) count++;
  return count;
}

void copy_arguments(const char* first, va_list list, char** out) noexcept {
  *out = const_cast<char*>(first);
  while (*out) *++out = va_arg(list, char*);
}

}  // namespace

void resolve_exec() noexcept {
  find_now(real_execve);
  find_all(real_execvpe, real_fexecve, real_execveat, real_posix_spawn, real_posix_spawnp);
  ChildEnvironment::remember();
}

}  // namespace aiflame::hooks

using namespace aiflame::hooks;

AIFLAME_EXPORT int execve(const char* path, char* const* arguments, char* const* environment) noexcept {
  return replace(environment, NewProgram(path, nullptr), [&](char** built) { return real_execve(path, arguments, built); });
}
AIFLAME_EXPORT int execv(const char* path, char* const* arguments) noexcept { return execve(path, arguments, environ); }

AIFLAME_EXPORT int execvpe(const char* file, char* const* arguments, char* const* environment) noexcept {
  return replace(environment, NewProgram(file, getenv("PATH")), [&](char** built) { return real_execvpe(file, arguments, built); });
}
AIFLAME_EXPORT int execvp(const char* file, char* const* arguments) noexcept { return execvpe(file, arguments, environ); }

AIFLAME_EXPORT int fexecve(int fd, char* const* arguments, char* const* environment) noexcept {
  return replace(environment, NewProgram(fd), [&](char** built) { return real_fexecve(fd, arguments, built); });
}

AIFLAME_EXPORT int execveat(int fd, const char* path, char* const* arguments, char* const* environment, int flags) noexcept {
  return replace(environment, NewProgram(flags & AT_EMPTY_PATH ? fd : -1),
                 [&](char** built) { return real_execveat(fd, path, arguments, built, flags); });
}

namespace {

// The arguments of execl(), execlp() and execle() as an array on this frame.
template <class Exec>
__attribute__((always_inline)) inline int with_array(const char* first, va_list counting, va_list copying, Exec exec) noexcept {
  char** arguments = static_cast<char**>(alloca((count_arguments(counting) + 1) * sizeof(char*)));
  copy_arguments(first, copying, arguments);
  return exec(arguments);
}

}  // namespace

AIFLAME_EXPORT int execl(const char* path, const char* first, ...) noexcept {
  va_list counting, copying;
  va_start(counting, first);
  va_start(copying, first);
  int result = with_array(first, counting, copying, [&](char** arguments) { return execve(path, arguments, environ); });
  va_end(counting);
  va_end(copying);
  return result;
}

AIFLAME_EXPORT int execlp(const char* file, const char* first, ...) noexcept {
  va_list counting, copying;
  va_start(counting, first);
  va_start(copying, first);
  int result = with_array(first, counting, copying, [&](char** arguments) { return execvpe(file, arguments, environ); });
  va_end(counting);
  va_end(copying);
  return result;
}

AIFLAME_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  va_list counting, copying;
  va_start(counting, first);
  va_start(copying, first);
  int result = with_array(first, counting, copying, [&](char** arguments) {
    return execve(path, arguments, va_arg(copying, char* const*));  // the environment follows the terminating null
  });
  va_end(counting);
  va_end(copying);
  return result;
}

AIFLAME_EXPORT int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
                               char* const* arguments, char* const* environment) noexcept {
  return start_child(environment, NewProgram(path, nullptr),
                     [&](char** built) { return real_posix_spawn(pid, path, actions, attributes, arguments, built); });
}
AIFLAME_EXPORT int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
                                char* const* arguments, char* const* environment) noexcept {
  return start_child(environment, NewProgram(file, getenv("PATH")),
                     [&](char** built) { return real_posix_spawnp(pid, file, actions, attributes, arguments, built); });
}
