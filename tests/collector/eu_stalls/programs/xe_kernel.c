// A Linux kernel's xe driver without a GPU: by LD_PRELOAD it answers the calls that observe EU stalls, and several processes share its state.
//
// It is written after Linux's drivers/gpu/drm/xe (xe_query.c, xe_observation.c, xe_eu_stall.c) and include/uapi/drm/xe_drm.h, with structs of
// its own, and refuses what that kernel refuses. $FAKE_XE_ROOT is a folder with
//   gpus                          a line for each: NODE MAJOR MINOR UNITS CORES RECORDS (of a core's buffer, a power of two)
//   dev/dri/NODE                  an empty file
//   sys/class/drm/NODE/device/…, proc/sys/dev/xe/observation_paranoid
// Paths below /sys/class/drm, /dev/dri and /proc/sys/dev/xe lead there. With FAKE_XE_PERFMON the process has the capability.
#include "xe_machine.h"

#include <poll.h>
#include <stdarg.h>

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
  snprintf(path, sizeof path, "%s/proc/sys/dev/xe/observation_paranoid", xe_root);
  int file = xe_real_open(path, O_RDONLY);
  if (file >= 0 && REAL(read)(file, &value, 1) < 1) value = '1';
  if (file >= 0) close(file);
  return value != '0';
}

static int open_stream(const struct gpu* gpu, const struct observation* asked) {
  if (asked->extensions || asked->type != 1 || asked->operation != 0) return xe_refuse(EINVAL);
  if (gpu->major < 20 && gpu->major != 12) return xe_refuse(ENODEV);
  if (paranoid() && !getenv("FAKE_XE_PERFMON")) return xe_refuse(EACCES);
  uint64_t unit_number = ~0ull, multiple = 4, reports = 1;
  int depth = 0;
  for (const struct property* one = (const void*)asked->parameters; one; one = (const void*)one->next) {
    if (depth++ >= 5) return xe_refuse(E2BIG);
    if (one->pad || one->name || one->pad2 || one->property < 1 || one->property > 3) return xe_refuse(EINVAL);
    if (one->property == 1) unit_number = one->value;
    if (one->property == 2) multiple = one->value / 251;
    if (one->property == 3) reports = one->value;
  }
  if (unit_number >= (uint64_t)gpu->units || multiple < 1 || multiple > 7) return xe_refuse(EINVAL);
  char path[4096];
  snprintf(path, sizeof path, "%s/stream-%s-%d", xe_root, gpu->node, (int)unit_number);
  int stream = REAL(open)(path, O_RDWR);  // without close-on-exec, as the kernel's
  if (stream < 0) return -1;
  // The lock ends with the last descriptor of the stream, in whichever process that is.
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(stream, F_OFD_SETLK, &whole)) {
    close(stream);
    return xe_refuse(EBUSY);
  }
  if (!reports || reports > (uint64_t)(gpu->records * gpu->cores)) {
    close(stream);
    return xe_refuse(EINVAL);
  }
  struct unit* unit = &xe_state->units[gpu - xe_gpus][unit_number];
  xe_lock();
  unit->enabled = 0;
  unit->readable = 0;
  unit->multiple = (uint32_t)multiple;
  unit->reports = (uint32_t)reports;
  xe_unlock();
  return stream;
}

static int control_stream(struct unit* unit, unsigned long request) {
  if (request != 0x6900 && request != 0x6901) return xe_refuse(EINVAL);
  xe_lock();
  int enable = request == 0x6900;
  if (enable && !unit->enabled) {
    unit->told = 0;
    for (int at = 0; at < CORES; at++) {
      struct core* core = &unit->cores[at];
      core->read = core->seen = core->write;
      core->full = core->drop = 0;
    }
    unit->looked_ns = xe_now_ns();
  }
  unit->enabled = (uint32_t)enable;
  xe_unlock();
  return 0;
}

// The driver looks at the GPU's buffers every 5 ms.
static void look(const struct gpu* gpu, struct unit* unit) {
  uint64_t now = xe_now_ns(), records = 0;
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
  if (!room || !unit->enabled) return xe_refuse(EINVAL);
  for (;;) {
    xe_lock();
    look(gpu, unit);
    int waits = !(fcntl(stream, F_GETFL) & O_NONBLOCK);
    ssize_t result = waits && !unit->readable ? -EAGAIN : read_locked(gpu, unit, to, room);
    unit->readable = 0;
    xe_unlock();
    if (result >= 0) return result;
    if (result != -EAGAIN || !waits) return xe_refuse((int)-result);
    usleep(1000);
  }
}

// The GPU of a descriptor; `*unit`: the unit of a stream, NULL for the device itself.
static const struct gpu* gpu_of(int descriptor, struct unit** unit) {
  struct stat status;
  *unit = 0;
  if (!xe_gpu_count || descriptor < 0 || fstat(descriptor, &status)) return 0;
  for (int at = 0; at < xe_gpu_count; at++) {
    if (xe_gpus[at].inode == status.st_ino) return &xe_gpus[at];
    for (int number = 0; number < xe_gpus[at].units; number++) {
      if (xe_gpus[at].streams[number] != status.st_ino) continue;
      *unit = &xe_state->units[at][number];
      return &xe_gpus[at];
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
  if (request == 0x4020644b) return open_stream(gpu, argument);
  return request == 0xc0286440 ? xe_query(gpu, argument) : xe_memory_call(gpu, request, argument);
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
  uint64_t until = xe_now_ns() + (uint64_t)timeout_ms * 1000000u;
  for (;;) {
    int ready = 0;
    for (nfds_t at = 0; at < count; at++) {
      const struct gpu* gpu = gpu_of(descriptors[at].fd, &unit);
      if (!gpu || !unit) abort();
      xe_lock();
      look(gpu, unit);
      descriptors[at].revents = unit->readable ? POLLIN : 0;
      xe_unlock();
      ready += descriptors[at].revents != 0;
    }
    if (ready || (timeout_ms >= 0 && xe_now_ns() >= until)) return ready;
    usleep(1000);
  }
}
