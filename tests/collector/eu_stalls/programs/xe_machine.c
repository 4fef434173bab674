#include "xe_machine.h"

#include <sched.h>
#include <sys/mman.h>

struct gpu xe_gpus[GPUS];
int xe_gpu_count;
struct state* xe_state;
const char* xe_root;

int xe_refuse(int number) {
  errno = number;
  return -1;
}

uint64_t xe_ticks_at(uint64_t ns) { return (uint64_t)((unsigned __int128)ns * XE_CLOCK_HZ / 1000000000u); }

uint64_t xe_ticks(void) { return xe_ticks_at(xe_now_ns()); }

uint64_t xe_now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void xe_lock(void) {
  while (atomic_flag_test_and_set_explicit(&xe_state->locked, memory_order_acquire)) sched_yield();
}
void xe_unlock(void) { atomic_flag_clear_explicit(&xe_state->locked, memory_order_release); }

int xe_real_open(const char* path, int flags) { return openat(AT_FDCWD, path, flags | O_CLOEXEC, 0600); }

static ino_t inode_of(const char* path) {
  int file = xe_real_open(path, O_RDONLY | O_CREAT);
  struct stat status = {0};
  if (file < 0 || fstat(file, &status)) return 0;
  close(file);
  return status.st_ino;
}

__attribute__((constructor)) void xe_begin(void) {
  if (xe_state || !(xe_root = getenv("FAKE_XE_ROOT"))) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/state", xe_root);
  int file = xe_real_open(path, O_RDWR | O_CREAT);
  if (file < 0 || ftruncate(file, sizeof *xe_state)) abort();
  xe_state = mmap(0, sizeof *xe_state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (xe_state == MAP_FAILED) abort();
  snprintf(path, sizeof path, "%s/gpus", xe_root);
  FILE* list = fdopen(xe_real_open(path, O_RDONLY), "r");
  struct gpu* gpu = xe_gpus;
  while (list && xe_gpu_count < GPUS &&
         fscanf(list, "%31s %d %d %d %d %d", gpu->node, &gpu->major, &gpu->minor, &gpu->units, &gpu->cores, &gpu->records) == 6) {
    if (gpu->units > UNITS || gpu->cores > CORES || gpu->records > RECORDS) abort();
    snprintf(path, sizeof path, "%s/dev/dri/%s", xe_root, gpu->node);
    gpu->inode = inode_of(path);
    if (truncate(path, MEMORY)) abort();
    for (int unit = 0; unit < gpu->units; unit++) {
      snprintf(path, sizeof path, "%s/stream-%s-%d", xe_root, gpu->node, unit);
      gpu->streams[unit] = inode_of(path);
      gpu->held[unit] = xe_real_open(path, O_RDWR);
    }
    gpu++, xe_gpu_count++;
  }
  if (list) fclose(list);
}

// ---- the GPU: samples ----

// Puts `count` bits into a record, lowest first.
static void put(unsigned char* record, unsigned* at, unsigned count, uint64_t value) {
  for (unsigned bit = 0; bit < count; bit++, ++*at)
    if (value >> bit & 1) record[*at / 8] |= (unsigned char)(1u << *at % 8);
}

// Closing the last descriptor of a stream disables it, also when its process is killed.
static int samples(const struct gpu* gpu, int unit) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return xe_state->units[gpu - xe_gpus][unit].enabled && !fcntl(gpu->held[unit], F_OFD_GETLK, &whole) && whole.l_type != F_UNLCK;
}

// The GPU samples an instruction. 0: the unit does not sample; -1: a core's buffer was full.
int fake_xe_sample(const char* node, int unit_number, int core_number, uint64_t address, const struct stalls* seen) {
  xe_begin();
  for (struct gpu* gpu = xe_gpus; gpu < xe_gpus + xe_gpu_count; gpu++) {
    if (strcmp(gpu->node, node)) continue;
    unsigned char record[RECORD] = {0};
    unsigned at = 0;
    int old = gpu->major < 20, wide = gpu->major >= 35;
    put(record, &at, wide ? 61 : 29, address >> 3);
    put(record, &at, 8, old ? seen->active : seen->tdr);
    put(record, &at, 8, seen->other);
    put(record, &at, 8, seen->control);
    put(record, &at, 8, seen->pipestall);
    put(record, &at, 8, seen->send);
    put(record, &at, 8, seen->dist_acc);
    put(record, &at, 8, seen->sbid);
    put(record, &at, 8, seen->sync);
    put(record, &at, 8, seen->inst_fetch);
    if (!old) {
      put(record, &at, 8, seen->active);
      put(record, &at, 3, 5);  // which execution unit
      put(record, &at, 1, 1);  // the end
    }
    struct unit* unit = &xe_state->units[gpu - xe_gpus][unit_number];
    struct core* core = &unit->cores[core_number % gpu->cores];
    int result = 0;
    xe_lock();
    int enabled = samples(gpu, unit_number);
    if (enabled && core->write - core->read == (uint64_t)gpu->records) {
      core->full = 1;
      result = -1;
    } else if (enabled) {
      memcpy(core->records[core->write++ % (uint64_t)gpu->records], record, sizeof record);
      result = 1;
    }
    xe_unlock();
    return result;
  }
  abort();
}

// 1 while some process samples the unit.
int fake_xe_enabled(const char* node, int unit) {
  xe_begin();
  for (int gpu = 0; gpu < xe_gpu_count; gpu++)
    if (!strcmp(xe_gpus[gpu].node, node)) return samples(&xe_gpus[gpu], unit);
  return 0;
}
