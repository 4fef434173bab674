// A Linux kernel's xe driver without a GPU: by LD_PRELOAD it answers the calls that observe EU stalls, and several processes share its state.
//
// It is written after Linux's drivers/gpu/drm/xe (xe_query.c, xe_observation.c, xe_eu_stall.c) and include/uapi/drm/xe_drm.h, with structs of
// its own, and refuses what that kernel refuses. $FAKE_XE_ROOT is a folder with
//   gpus                          a line for each: NODE MAJOR MINOR UNITS CORES RECORDS (of a core's buffer, a power of two)
//   dev/dri/NODE                  an empty file
//   sys/class/drm/NODE/device/…, proc/sys/dev/xe/observation_paranoid
// Paths below /sys/class/drm, /dev/dri and /proc/sys/dev/xe lead there. With FAKE_XE_PERFMON the process has the capability.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 4, UNITS = 2, CORES = 8, RECORDS = 8192, RECORD = 64, PERIOD_NS = 5000000 };

struct core {
  uint64_t write, read, seen;  // counted from the begin; `seen`: of `write`, at the driver's last look
  uint32_t full, drop;         // the GPU's own bit, and the driver's copy of it
  unsigned char records[RECORDS][RECORD];
};
struct unit {
  uint32_t enabled, multiple, reports, readable, told;
  uint64_t looked_ns;
  struct core cores[CORES];
};
struct state {
  atomic_flag locked;
  struct unit units[GPUS][UNITS];
};
struct gpu {
  char node[32];
  int major, minor, units, cores, records;
  ino_t inode, streams[UNITS];
  int held[UNITS];  // descriptors, to ask whether a stream is open
};

static struct gpu gpus[GPUS];
static int gpu_count;
static struct state* state;
static const char* root;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void lock(void) {
  while (atomic_flag_test_and_set_explicit(&state->locked, memory_order_acquire)) sched_yield();
}
static void unlock(void) { atomic_flag_clear_explicit(&state->locked, memory_order_release); }

static int real_open(const char* path, int flags) { return openat(AT_FDCWD, path, flags | O_CLOEXEC, 0600); }

static ino_t inode_of(const char* path) {
  int file = real_open(path, O_RDONLY | O_CREAT);
  struct stat status = {0};
  if (file < 0 || fstat(file, &status)) return 0;
  close(file);
  return status.st_ino;
}

__attribute__((constructor)) static void begin(void) {
  if (state || !(root = getenv("FAKE_XE_ROOT"))) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/state", root);
  int file = real_open(path, O_RDWR | O_CREAT);
  if (file < 0 || ftruncate(file, sizeof *state)) abort();
  state = mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (state == MAP_FAILED) abort();
  snprintf(path, sizeof path, "%s/gpus", root);
  FILE* list = fdopen(real_open(path, O_RDONLY), "r");
  struct gpu* gpu = gpus;
  while (list && gpu_count < GPUS &&
         fscanf(list, "%31s %d %d %d %d %d", gpu->node, &gpu->major, &gpu->minor, &gpu->units, &gpu->cores, &gpu->records) == 6) {
    if (gpu->units > UNITS || gpu->cores > CORES || gpu->records > RECORDS) abort();
    snprintf(path, sizeof path, "%s/dev/dri/%s", root, gpu->node);
    gpu->inode = inode_of(path);
    for (int unit = 0; unit < gpu->units; unit++) {
      snprintf(path, sizeof path, "%s/stream-%s-%d", root, gpu->node, unit);
      gpu->streams[unit] = inode_of(path);
      gpu->held[unit] = real_open(path, O_RDWR);
    }
    gpu++, gpu_count++;
  }
  if (list) fclose(list);
}

// ---- the GPU: samples ----

// Puts `count` bits into a record, lowest first.
static void put(unsigned char* record, unsigned* at, unsigned count, uint64_t value) {
  for (unsigned bit = 0; bit < count; bit++, ++*at)
    if (value >> bit & 1) record[*at / 8] |= (unsigned char)(1u << *at % 8);
}

struct stalls {
  uint8_t active, tdr, other, control, pipestall, send, dist_acc, sbid, sync, inst_fetch;
};

// Closing the last descriptor of a stream disables it, also when its process is killed.
static int samples(const struct gpu* gpu, int unit) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return state->units[gpu - gpus][unit].enabled && !fcntl(gpu->held[unit], F_OFD_GETLK, &whole) && whole.l_type != F_UNLCK;
}

// The GPU samples an instruction. 0: the unit does not sample; -1: a core's buffer was full.
int fake_xe_sample(const char* node, int unit_number, int core_number, uint64_t address, const struct stalls* seen) {
  begin();
  for (struct gpu* gpu = gpus; gpu < gpus + gpu_count; gpu++) {
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
    struct unit* unit = &state->units[gpu - gpus][unit_number];
    struct core* core = &unit->cores[core_number % gpu->cores];
    int result = 0;
    lock();
    int enabled = samples(gpu, unit_number);
    if (enabled && core->write - core->read == (uint64_t)gpu->records) {
      core->full = 1;
      result = -1;
    } else if (enabled) {
      memcpy(core->records[core->write++ % (uint64_t)gpu->records], record, sizeof record);
      result = 1;
    }
    unlock();
    return result;
  }
  abort();
}

// 1 while some process samples the unit.
int fake_xe_enabled(const char* node, int unit) {
  begin();
  for (int gpu = 0; gpu < gpu_count; gpu++)
    if (!strcmp(gpus[gpu].node, node)) return samples(&gpus[gpu], unit);
  return 0;
}

// ---- the driver: queries ----

struct device_query {
  uint64_t extensions;
  uint32_t query, size;
  uint64_t data, reserved[2];
};
struct gt {
  uint16_t type, tile, id, pad[3];
  uint32_t clock;
  uint64_t near_memory, far_memory;
  uint16_t major, minor, revision, pad2;
  uint64_t reserved[7];
};

static int refuse(int number) {
  errno = number;
  return -1;
}

static int answer(struct device_query* query, const void* data, uint32_t size) {
  if (!query->size) {
    query->size = size;
    return 0;
  }
  if (query->size != size) return refuse(EINVAL);
  memcpy((void*)query->data, data, size);
  return 0;
}

static int device_query(const struct gpu* gpu, struct device_query* query) {
  if (query->extensions || query->reserved[0] || query->reserved[1]) return refuse(EINVAL);
  if (query->query == 3) {
    struct {
      uint32_t count, pad;
      struct gt gts[UNITS + 1];
    } list = {.count = (uint32_t)gpu->units + 1};
    for (int unit = 0; unit < gpu->units; unit++)
      list.gts[unit] =
          (struct gt){.tile = (uint16_t)unit, .id = (uint16_t)unit, .clock = 19200000, .major = (uint16_t)gpu->major, .minor = (uint16_t)gpu->minor};
    // The last one encodes video, and has a version of its own.
    list.gts[gpu->units] = (struct gt){.type = 1, .id = (uint16_t)gpu->units, .clock = 19200000, .major = 13, .minor = 1};
    return answer(query, &list, (uint32_t)(8 + list.count * sizeof(struct gt)));
  }
  if (query->query == 10) {
    if (gpu->major < 20 && !(gpu->major == 12 && gpu->minor >= 60)) return refuse(ENODEV);
    struct {
      uint64_t extensions, capabilities, record, buffer, reserved[5], count, rates[7];
    } stalls = {.capabilities = 1, .record = RECORD, .buffer = (uint64_t)gpu->records * RECORD, .count = 7};
    for (uint64_t at = 0; at < 7; at++) stalls.rates[at] = 251 * (at + 1);
    return answer(query, &stalls, sizeof stalls);
  }
  return refuse(EINVAL);
}

// ---- the driver: streams ----

struct property {
  uint64_t next;
  uint32_t name, pad, property, pad2;
  uint64_t value, reserved[2];
};
struct observation {
  uint64_t extensions, type, operation, parameters;
};

static int paranoid(void) {
  char path[4096], value = '1';
  snprintf(path, sizeof path, "%s/proc/sys/dev/xe/observation_paranoid", root);
  int file = real_open(path, O_RDONLY);
  if (file >= 0 && REAL(read)(file, &value, 1) < 1) value = '1';
  if (file >= 0) close(file);
  return value != '0';
}

static int open_stream(const struct gpu* gpu, const struct observation* asked) {
  if (asked->extensions || asked->type != 1 || asked->operation != 0) return refuse(EINVAL);
  if (gpu->major < 20 && gpu->major != 12) return refuse(ENODEV);
  if (paranoid() && !getenv("FAKE_XE_PERFMON")) return refuse(EACCES);
  uint64_t unit_number = ~0ull, multiple = 4, reports = 1;
  int depth = 0;
  for (const struct property* one = (const void*)asked->parameters; one; one = (const void*)one->next) {
    if (depth++ >= 5) return refuse(E2BIG);
    if (one->pad || one->name || one->pad2 || one->property < 1 || one->property > 3) return refuse(EINVAL);
    if (one->property == 1) unit_number = one->value;
    if (one->property == 2) multiple = one->value / 251;
    if (one->property == 3) reports = one->value;
  }
  if (unit_number >= (uint64_t)gpu->units || multiple < 1 || multiple > 7) return refuse(EINVAL);
  char path[4096];
  snprintf(path, sizeof path, "%s/stream-%s-%d", root, gpu->node, (int)unit_number);
  int stream = REAL(open)(path, O_RDWR);  // without close-on-exec, as the kernel's
  if (stream < 0) return -1;
  // The lock ends with the last descriptor of the stream, in whichever process that is.
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(stream, F_OFD_SETLK, &whole)) {
    close(stream);
    return refuse(EBUSY);
  }
  if (!reports || reports > (uint64_t)(gpu->records * gpu->cores)) {
    close(stream);
    return refuse(EINVAL);
  }
  struct unit* unit = &state->units[gpu - gpus][unit_number];
  lock();
  unit->enabled = 0;
  unit->readable = 0;
  unit->multiple = (uint32_t)multiple;
  unit->reports = (uint32_t)reports;
  unlock();
  return stream;
}

static int control_stream(struct unit* unit, unsigned long request) {
  if (request != 0x6900 && request != 0x6901) return refuse(EINVAL);
  lock();
  int enable = request == 0x6900;
  if (enable && !unit->enabled) {
    unit->told = 0;
    for (int at = 0; at < CORES; at++) {
      struct core* core = &unit->cores[at];
      core->read = core->seen = core->write;
      core->full = core->drop = 0;
    }
    unit->looked_ns = now_ns();
  }
  unit->enabled = (uint32_t)enable;
  unlock();
  return 0;
}

// The driver looks at the GPU's buffers every 5 ms.
static void look(const struct gpu* gpu, struct unit* unit) {
  uint64_t now = now_ns(), records = 0;
  if (!unit->enabled || now - unit->looked_ns < PERIOD_NS) return;
  unit->looked_ns = now;
  for (int at = 0; at < gpu->cores; at++) {
    struct core* core = &unit->cores[at];
    core->seen = core->write;
    records += core->seen - core->read;
    core->drop |= core->full;
  }
  if (records >= unit->reports) unit->readable = 1;
}

static ssize_t read_locked(const struct gpu* gpu, struct unit* unit, unsigned char* to, size_t room) {
  look(gpu, unit);
  int dropped = 0;
  for (int at = 0; at < gpu->cores; at++) dropped |= unit->cores[at].drop != 0;
  if (dropped && !unit->told) {
    unit->told = 1;
    return -EIO;
  }
  if (dropped) unit->told = 0;
  size_t size = 0;
  for (int at = 0; at < gpu->cores && size < room; at++) {
    struct core* core = &unit->cores[at];
    for (; core->read < core->seen && size < room; size += RECORD) memcpy(to + size, core->records[core->read++ % (uint64_t)gpu->records], RECORD);
    if (core->drop) core->drop = core->full = 0;
  }
  return size ? (ssize_t)size : -EAGAIN;
}

static ssize_t read_stream(int stream, const struct gpu* gpu, struct unit* unit, void* to, size_t room) {
  room -= room % RECORD;
  if (!room || !unit->enabled) return refuse(EINVAL);
  for (;;) {
    lock();
    look(gpu, unit);
    int waits = !(fcntl(stream, F_GETFL) & O_NONBLOCK);
    ssize_t result = waits && !unit->readable ? -EAGAIN : read_locked(gpu, unit, to, room);
    unit->readable = 0;
    unlock();
    if (result >= 0) return result;
    if (result != -EAGAIN || !waits) return refuse((int)-result);
    usleep(1000);
  }
}

// The GPU of a descriptor; `*unit`: the unit of a stream, NULL for the device itself.
static const struct gpu* gpu_of(int descriptor, struct unit** unit) {
  struct stat status;
  *unit = 0;
  if (!gpu_count || descriptor < 0 || fstat(descriptor, &status)) return 0;
  for (int at = 0; at < gpu_count; at++) {
    if (gpus[at].inode == status.st_ino) return &gpus[at];
    for (int number = 0; number < gpus[at].units; number++) {
      if (gpus[at].streams[number] != status.st_ino) continue;
      *unit = &state->units[at][number];
      return &gpus[at];
    }
  }
  return 0;
}

// ---- the calls ----

int ioctl(int descriptor, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  struct unit* unit;
  const struct gpu* gpu = gpu_of(descriptor, &unit);
  // FIOCLEX, FIONCLEX and FIONBIO never reach a driver.
  if (!gpu || request == 0x5451 || request == 0x5450 || request == 0x5421) return REAL(ioctl)(descriptor, request, argument);
  if (unit) return control_stream(unit, request);
  if (request == 0xc0286440) return device_query(gpu, argument);
  if (request == 0x4020644b) return open_stream(gpu, argument);
  return refuse(EINVAL);
}

ssize_t read(int descriptor, void* to, size_t room) {
  struct unit* unit;
  const struct gpu* gpu = gpu_of(descriptor, &unit);
  return gpu && unit ? read_stream(descriptor, gpu, unit, to, room) : REAL(read)(descriptor, to, room);
}

// For streams alone, or for none.
int poll(struct pollfd* descriptors, nfds_t count, int timeout_ms) {
  struct unit* unit = 0;
  if (!count || !gpu_of(descriptors[0].fd, &unit) || !unit) return REAL(poll)(descriptors, count, timeout_ms);
  uint64_t until = now_ns() + (uint64_t)timeout_ms * 1000000u;
  for (;;) {
    int ready = 0;
    for (nfds_t at = 0; at < count; at++) {
      const struct gpu* gpu = gpu_of(descriptors[at].fd, &unit);
      if (!gpu || !unit) abort();
      lock();
      look(gpu, unit);
      descriptors[at].revents = unit->readable ? POLLIN : 0;
      unlock();
      ready += descriptors[at].revents != 0;
    }
    if (ready || (timeout_ms >= 0 && now_ns() >= until)) return ready;
    usleep(1000);
  }
}

// A path of the fake system in place of the machine's.
static const char* place(const char* path, char* room) {
  static const char* const ours[] = {"/sys/class/drm", "/dev/dri", "/proc/sys/dev/xe"};
  begin();
  for (size_t at = 0; root && path && at < sizeof ours / sizeof *ours; at++) {
    if (strncmp(path, ours[at], strlen(ours[at]))) continue;
    snprintf(room, 4096, "%s%s", root, path);
    return room;
  }
  return path;
}

#define OPENS(name)                                    \
  int name(const char* path, int flags, ...) {         \
    va_list rest;                                      \
    va_start(rest, flags);                             \
    unsigned mode = va_arg(rest, unsigned);            \
    va_end(rest);                                      \
    char room[4096];                                   \
    return REAL(name)(place(path, room), flags, mode); \
  }
OPENS(open)
OPENS(open64)
DIR* opendir(const char* path) {
  char room[4096];
  return REAL(opendir)(place(path, room));
}
#define LOOKS(name, type)                           \
  int name(const char* path, struct type* status) { \
    char room[4096];                                \
    return REAL(name)(place(path, room), status);   \
  }
LOOKS(stat, stat)
LOOKS(stat64, stat64)
LOOKS(lstat, stat)
LOOKS(lstat64, stat64)
#define OLD_LOOKS(name, type)                                              \
  int name(int version, const char* path, struct type* status) {           \
    char room[4096];                                                       \
    int (*real)(int, const char*, struct type*) = dlsym(RTLD_NEXT, #name); \
    return real(version, place(path, room), status);                       \
  }
OLD_LOOKS(__xstat, stat)
OLD_LOOKS(__xstat64, stat64)
OLD_LOOKS(__lxstat, stat)
OLD_LOOKS(__lxstat64, stat64)
