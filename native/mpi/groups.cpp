#include "mpi/groups.hpp"

#include <pthread.h>
#include <cstdlib>

namespace aiflame::mpi::groups {

namespace {

using schema::CallBackend;

// Groups that were made and not used yet, in that order.
struct Waiting {
  Runtime* runtime;
  Sort sort;
  Word handle;
};
constexpr size_t kWaiting = 256;
Waiting waiting[kWaiting];
size_t waiting_count = 0;
pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

struct Held {
  Held() { pthread_mutex_lock(&writing); }
  ~Held() { pthread_mutex_unlock(&writing); }
};

// Members of a group as ranks of MPI_COMM_WORLD; empty: all ranks in order, or not known.
class Members {
 public:
  Members(const Runtime& runtime, Word group, int size) noexcept {
    Word world = 0;
    bool tells = runtime.Group_translate_ranks && runtime.Group_free && runtime.Comm_group;
    // A program may use only sessions, or the world may have been finalized.
    if (!tells || !is(runtime.Initialized) || is(runtime.Finalized) || runtime.Comm_group(runtime.world, &world) != 0) return;
    int* numbers = static_cast<int*>(malloc(2 * sizeof(int) * static_cast<size_t>(size)));
    int all = 0;
    if (numbers && runtime.Group_size(world, &all) == 0) {
      for (int member = 0; member < size; member++) numbers[member] = member;
      if (runtime.Group_translate_ranks(group, size, numbers, world, numbers + size) == 0) take(numbers, size, all);
    }
    if (!ranks_) free(numbers);
    runtime.Group_free(&world);
  }
  ~Members() { free(ranks_); }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  std::span<const uint32_t> ranks() const noexcept { return {reinterpret_cast<const uint32_t*>(ranks_), count_}; }

 private:
  static bool is(int (*question)(int*)) noexcept {
    int answer = 0;
    return question && question(&answer) == 0 && answer;
  }

  // numbers: 0, 1, 2 …, then their ranks in the world.
  void take(int* numbers, int size, int all) noexcept {
    bool known = true, same = size == all;
    for (int member = 0; member < size; member++) {
      known &= numbers[size + member] >= 0;
      same &= numbers[size + member] == member;
      numbers[member] = numbers[size + member];
    }
    if (!known || same) return;
    ranks_ = numbers;
    count_ = static_cast<size_t>(size);
  }

  int* ranks_ = nullptr;
  size_t count_ = 0;
};

struct Name {
  // Longer than any MPI's MPI_MAX_OBJECT_NAME.
  char text[1024];
  int length = 0;
  Name(int (*question)(Word, char*, int*), Word handle) noexcept {
    if (!question || question(handle, text, &length) != 0 || length < 0) length = 0;
  }
};

uint32_t write(const calls::Interface& calls, const Runtime& runtime, Sort sort, Word handle) noexcept {
  bool window = sort == Sort::WINDOW;
  auto get_group = window ? runtime.Win_get_group : runtime.Comm_group;
  Word group = 0;
  if (!get_group || !runtime.Group_rank || !runtime.Group_size || get_group(handle, &group) != 0) return 0;
  int rank = 0, size = 0, between = 0;
  runtime.Group_rank(group, &rank);
  runtime.Group_size(group, &size);
  // Ranks in an intercommunicator belong to the other group.
  if (!window && runtime.Comm_test_inter) runtime.Comm_test_inter(handle, &between);
  Name name(window ? runtime.Win_get_name : runtime.Comm_get_name, handle);
  Members members(runtime, group, between ? 0 : size);
  if (runtime.Group_free) runtime.Group_free(&group);
  return calls.add_group({.backend = CallBackend::MPI,
                          .handle = handle,
                          .rank = static_cast<uint32_t>(rank),
                          .size = static_cast<uint32_t>(size),
                          .name = {name.text, static_cast<size_t>(name.length)},
                          .members = members.ranks()});
}

// Writes the waiting groups up to this one, and returns its row; 0: it is not among them.
uint32_t write_up_to(const calls::Interface& calls, Sort sort, Word handle) noexcept {
  size_t last = 0;
  while (last < waiting_count && !(waiting[last].handle == handle && waiting[last].sort == sort)) last++;
  if (last == waiting_count) return 0;
  uint32_t row = 0;
  for (size_t at = 0; at <= last; at++) row = write(calls, *waiting[at].runtime, waiting[at].sort, waiting[at].handle);
  waiting_count -= last + 1;
  for (size_t at = 0; at < waiting_count; at++) waiting[at] = waiting[at + last + 1];
  return row;
}

}  // namespace

void begin(const calls::Interface& calls, Runtime& runtime) noexcept { row(calls, runtime, Sort::COMM, runtime.world, true); }

void made(const calls::Interface& calls, Runtime& runtime, Sort sort, Word handle) noexcept {
  if (sort == Sort::COMM && handle == runtime.no_comm) return;
  Held held;
  // The handle may have been reused, if freeing the former group went unnoticed.
  calls.forget_group(CallBackend::MPI, handle);
  if (waiting_count == kWaiting) write_up_to(calls, waiting[kWaiting - 1].sort, waiting[kWaiting - 1].handle);
  waiting[waiting_count++] = {&runtime, sort, handle};
}

uint32_t row(const calls::Interface& calls, Runtime& runtime, Sort sort, Word handle, bool valid) noexcept {
  uint32_t known = calls.find_group(CallBackend::MPI, handle);
  if (known || !valid) [[likely]]
    return known;
  Held held;
  known = calls.find_group(CallBackend::MPI, handle);
  if (!known) known = write_up_to(calls, sort, handle);
  return known ? known : write(calls, runtime, sort, handle);
}

uint32_t freed(const calls::Interface& calls, Sort sort, Word handle) noexcept {
  Held held;
  uint32_t known = calls.find_group(CallBackend::MPI, handle);
  if (!known) known = write_up_to(calls, sort, handle);
  calls.forget_group(CallBackend::MPI, handle);
  return known;
}

}  // namespace aiflame::mpi::groups
