// Buffers, address spaces and queues of the driver. A buffer lies in the file of its GPU, from where the program maps it, too.
#include "xe_machine.h"

#include <pthread.h>
#include <sys/mman.h>

struct gem_create {
  uint64_t extensions, size;
  uint32_t placement, flags, vm, handle;
  uint16_t caching, pad[3];
  uint64_t reserved[2];
};
struct gem_offset {
  uint64_t extensions;
  uint32_t handle, flags;
  uint64_t offset, reserved[2];
};
struct vm_create {
  uint64_t extensions;
  uint32_t flags, vm;
  uint64_t reserved[2];
};
struct bind {
  uint64_t extensions;
  uint32_t buffer;
  uint16_t pat, pad;
  uint64_t from, range, address;  // `from`: in the buffer, or an address of the program
  uint32_t operation, flags, region, pad2;
  uint64_t reserved[3];
};
struct vm_bind {
  uint64_t extensions;
  uint32_t vm, queue, pad, count;
  union {
    struct bind one;
    uint64_t several;
  };
  uint32_t pad2, syncs_count;
  uint64_t syncs, reserved[2];
};
struct queue_create {
  uint64_t extensions;
  uint16_t width, placements;
  uint32_t vm, flags, queue;
  uint64_t instances, reserved[2];
};
struct queue_property {
  uint64_t extensions;
  uint32_t queue, property;
  uint64_t value, reserved[2];
};
struct sync {
  uint64_t extensions;
  uint32_t type, flags;
  uint64_t address, value, reserved[2];
};
struct execute {
  uint64_t extensions;
  uint32_t queue, syncs_count;
  uint64_t syncs, address;
  uint16_t count, pad[3];
  uint64_t reserved[2];
};
struct drm_version {
  int major, minor, patch;
  size_t name_length;
  char* name;
  size_t date_length;
  char* date;
  size_t text_length;
  char* text;
};

enum { MAP, UNMAP, MAP_PROGRAM, UNMAP_ALL };
enum { NO_MEMORY = 1 << 2 | 1 << 4 };  // flags of a mapping to nothing, or to the program's own addresses
enum { USER_FENCE = 2, SIGNALS = 1 };
enum { BUFFERS = 1 << 14, BINDS = 1 << 14, ALIGNMENT = 2 << 20, ADDRESS_BITS = 48 };

static struct {
  uint64_t offset, size;
  unsigned char* memory;
} buffers[BUFFERS];
static int queue_units[1 << 12];  // where a queue's commands are executed
static uint32_t buffer_count = 1, ids = 1, bind_count;
static struct {
  uint64_t address, range;
  unsigned char* memory;
} binds[BINDS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t plain(uint64_t address) { return address & ((1ull << ADDRESS_BITS) - 1); }

unsigned char* xe_memory(uint64_t address) {
  address = plain(address);
  for (uint32_t at = bind_count; at-- > 0;)
    if (address >= binds[at].address && address < binds[at].address + binds[at].range) return binds[at].memory + (address - binds[at].address);
  return 0;
}

static int create(const struct gpu* gpu, struct gem_create* asked) {
  if (asked->extensions || !asked->size || asked->size % 4096 || !asked->caching || asked->caching > 2) return xe_refuse(EINVAL);
  if (buffer_count == BUFFERS) return xe_refuse(ENOMEM);
  uint64_t size = (asked->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  uint64_t offset = atomic_fetch_add(&xe_state->next_offset, size) + ALIGNMENT;
  char path[4096];
  snprintf(path, sizeof path, "%s/dev/dri/%s", xe_root, gpu->node);
  int file = xe_real_open(path, O_RDWR);
  void* memory = file < 0 ? MAP_FAILED : mmap(0, asked->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
  if (file >= 0) close(file);
  if (memory == MAP_FAILED) return xe_refuse(ENOMEM);
  buffers[buffer_count].offset = offset;
  buffers[buffer_count].size = asked->size;
  buffers[buffer_count].memory = memory;
  asked->handle = buffer_count++;
  return 0;
}

static int bind(const struct bind* one) {
  uint64_t address = plain(one->address);
  if (one->operation > 4) return xe_refuse(EINVAL);
  for (uint32_t at = 0; at < bind_count; at++)
    if (one->operation <= UNMAP_ALL &&
        (one->operation == UNMAP_ALL || (binds[at].address < address + one->range && address < binds[at].address + binds[at].range)))
      binds[at--] = binds[--bind_count];
  int maps = one->operation == MAP || one->operation == MAP_PROGRAM;
  if (!maps || one->flags & NO_MEMORY) return 0;
  if (bind_count == BINDS) return xe_refuse(ENOMEM);
  if (one->operation == MAP && (!one->buffer || one->buffer >= buffer_count)) return xe_refuse(ENOENT);
  if (one->operation == MAP && one->from + one->range > buffers[one->buffer].size) return xe_refuse(EINVAL);
  binds[bind_count].address = address;
  binds[bind_count].range = one->range;
  binds[bind_count++].memory = one->operation == MAP ? buffers[one->buffer].memory + one->from : (unsigned char*)one->from;
  return 0;
}

static void signal_fences(const struct sync* syncs, uint32_t count, int on_gpu) {
  for (uint32_t at = 0; at < count; at++) {
    if (syncs[at].type != USER_FENCE || !(syncs[at].flags & SIGNALS)) continue;
    unsigned char* fence = on_gpu ? xe_memory(syncs[at].address) : (unsigned char*)syncs[at].address;
    if (fence) *(volatile uint64_t*)fence = syncs[at].value;
  }
}

static int bind_all(const struct vm_bind* asked) {
  if (asked->extensions || !asked->count) return xe_refuse(EINVAL);
  const struct bind* one = asked->count == 1 ? &asked->one : (const struct bind*)asked->several;
  for (uint32_t at = 0; at < asked->count; at++)
    if (bind(one + at)) return -1;
  signal_fences((const struct sync*)asked->syncs, asked->syncs_count, 0);
  return 0;
}

static int create_queue(const struct gpu* gpu, struct queue_create* asked) {
  const struct {
    uint16_t class, instance, gt, pad;
  }* engine = (const void*)asked->instances;
  if (asked->width != 1 || !asked->placements || engine->gt > gpu->units) return xe_refuse(EINVAL);
  asked->queue = ids++;
  queue_units[asked->queue % (1 << 12)] = engine->gt;
  return 0;
}

static int execute(const struct gpu* gpu, const struct execute* asked) {
  if (asked->count != 1) return xe_refuse(EINVAL);
  xe_execute(gpu, queue_units[asked->queue % (1 << 12)], asked->address);
  signal_fences((const struct sync*)asked->syncs, asked->syncs_count, 1);
  return 0;
}

static int version(struct drm_version* asked) {
  asked->major = asked->minor = 1;
  if (asked->name && asked->name_length >= 2) memcpy(asked->name, "xe", 2);
  asked->name_length = 2;
  asked->date_length = asked->text_length = 0;
  return 0;
}

static int mmap_offset(struct gem_offset* asked) {
  if (!asked->handle || asked->handle >= buffer_count) return xe_refuse(ENOENT);
  asked->offset = buffers[asked->handle].offset;
  return 0;
}

static int call(const struct gpu* gpu, unsigned number, void* argument) {
  switch (number) {
    case 0x00:
      return version(argument);
    case 0x09:  // a buffer is closed: its memory stays
      return 0;
    case 0x41:
      return create(gpu, argument);
    case 0x42:
      return mmap_offset(argument);
    case 0x43:
      ((struct vm_create*)argument)->vm = ids++;
      return 0;
    case 0x45:
      return bind_all(argument);
    case 0x46:
      return create_queue(gpu, argument);
    case 0x48:
      ((struct queue_property*)argument)->value = 0;
      return 0;
    case 0x49:
      return execute(gpu, argument);
    case 0x44:  // an address space ends
    case 0x47:  // a queue ends
    case 0x4a:  // commands have been executed when the call returns
    case 0x4e:  // a property of a queue
      return 0;
    default:
      return xe_refuse(EINVAL);
  }
}

int xe_memory_call(const struct gpu* gpu, unsigned long request, void* argument) {
  if ((request >> 8 & 0xff) != 'd') return xe_refuse(ENOTTY);
  pthread_mutex_lock(&mutex);
  int result = call(gpu, request & 0xff, argument);
  pthread_mutex_unlock(&mutex);
  return result;
}
