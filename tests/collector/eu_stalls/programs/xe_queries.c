// The driver's answers about its GPUs.
#include "xe_machine.h"

struct device_query {
  uint64_t extensions;
  uint32_t query, size;
  uint64_t data, reserved[2];
};
struct engine_id {
  uint16_t class, instance, gt, pad;
};
struct engine {
  struct engine_id id;
  uint64_t reserved[3];
};
struct region {
  uint16_t class, instance;
  uint32_t page;
  uint64_t size, used, visible_size, visible_used, reserved[6];
};
struct gt {
  uint16_t type, tile, id, pad[3];
  uint32_t clock;
  uint64_t near_memory, far_memory;
  uint16_t major, minor, revision, pad2;
  uint64_t reserved[7];
};
struct cycles {
  struct engine_id engine;
  int32_t clock;
  uint32_t width;
  uint64_t cycles, cpu_time, cpu_delta;
};
struct mask {
  uint16_t gt, type;
  uint32_t bytes;
  uint8_t bits[8];
};

enum { ENGINES, REGIONS, CONFIG, GT_LIST, TOPOLOGY = 5, CYCLES, STALLS = 10 };

static int answer(struct device_query* query, const void* data, size_t size) {
  if (!query->size) {
    query->size = (uint32_t)size;
    return 0;
  }
  if (query->size != size) return xe_refuse(EINVAL);
  memcpy((void*)query->data, data, size);
  return 0;
}

// A card of its own has memory of its own.
static int has_memory(const struct gpu* gpu) { return gpu->major == 12 || (gpu->major == 20 && gpu->minor < 4); }

static int engines(const struct gpu* gpu, struct device_query* query) {
  static const uint16_t classes[] = {0, 1, 4};  // render, copy, compute
  struct {
    uint32_t count, pad;
    struct engine engines[3 * UNITS];
  } list = {.count = 3 * (uint32_t)gpu->units};
  for (uint32_t at = 0; at < list.count; at++) list.engines[at].id = (struct engine_id){.class = classes[at % 3], .gt = (uint16_t)(at / 3)};
  return answer(query, &list, 8 + list.count * sizeof(struct engine));
}

static int regions(const struct gpu* gpu, struct device_query* query) {
  struct {
    uint32_t count, pad;
    struct region regions[1 + UNITS];
  } list = {.count = has_memory(gpu) ? 1 + (uint32_t)gpu->units : 1};
  list.regions[0] = (struct region){.page = 4096, .size = 16ull << 30};
  for (uint16_t at = 1; at < list.count; at++)
    list.regions[at] = (struct region){.class = 1, .instance = at, .page = 65536, .size = 12ull << 30, .visible_size = 12ull << 30};
  return answer(query, &list, 8 + list.count * sizeof(struct region));
}

static int config(const struct gpu* gpu, struct device_query* query) {
  uint64_t id = gpu->major == 12 ? 0x2f0bd5 : has_memory(gpu) ? 0xe20b : 0x464a0;
  struct {
    uint32_t count, pad;
    uint64_t facts[5];  // identity and revision, flags, alignment, bits of an address, priorities
  } facts = {5, 0, {id, has_memory(gpu), has_memory(gpu) ? 65536 : 4096, 48, 2}};
  return answer(query, &facts, sizeof facts);
}

static int gts(const struct gpu* gpu, struct device_query* query) {
  struct {
    uint32_t count, pad;
    struct gt gts[UNITS + 1];
  } list = {.count = (uint32_t)gpu->units + 1};
  for (int unit = 0; unit <= gpu->units; unit++) {
    struct gt* one = &list.gts[unit];
    *one =
        (struct gt){.tile = (uint16_t)unit, .id = (uint16_t)unit, .clock = XE_CLOCK_HZ, .major = (uint16_t)gpu->major, .minor = (uint16_t)gpu->minor};
    // Each unit has memory of its own.
    one->near_memory = has_memory(gpu) ? 2u << one->tile : 1;
    one->far_memory = has_memory(gpu) ? ((2u << gpu->units) - 1) & ~one->near_memory : 0;
    one->revision = gpu->major == 12 ? 7 : has_memory(gpu) ? 0 : 4;
    // The last one encodes video, and has a version of its own.
    if (unit == gpu->units) one->type = 1, one->tile = 0, one->near_memory = has_memory(gpu) ? 2 : 1, one->major = 13, one->minor = 1;
  }
  return answer(query, &list, 8 + list.count * sizeof(struct gt));
}

static int topology(const struct gpu* gpu, struct device_query* query) {
  struct mask masks[4 * UNITS];
  for (int at = 0; at < 4 * gpu->units; at++) {
    masks[at] = (struct mask){.gt = (uint16_t)(at / 4), .type = (uint16_t[]){1, 2, 3, 5}[at % 4], .bytes = 8, .bits = {0xff}};
    if (has_memory(gpu) && at % 4 < 2) masks[at].bits[1] = 0xff, masks[at].bits[2] = 0x0f;
  }
  return answer(query, masks, (size_t)gpu->units * 4 * sizeof *masks);
}

static int cycles(const struct gpu* gpu, struct device_query* query) {
  if (!query->size) {
    query->size = sizeof(struct cycles);
    return 0;
  }
  if (query->size != sizeof(struct cycles)) return xe_refuse(EINVAL);
  struct cycles* read = (void*)query->data;
  read->width = gpu->major >= 20 ? 64 : 36;
  read->cycles = xe_ticks() & (read->width == 64 ? ~0ull : (1ull << read->width) - 1);
  read->cpu_time = xe_now_ns();
  read->cpu_delta = 100;
  return 0;
}

static int stalls(const struct gpu* gpu, struct device_query* query) {
  if (getenv("FAKE_XE_OLD")) return xe_refuse(EINVAL);  // before Linux 6.15
  if (gpu->major < 20 && !(gpu->major == 12 && gpu->minor >= 60)) return xe_refuse(ENODEV);
  struct {
    uint64_t extensions, capabilities, record, buffer, reserved[5], count, rates[7];
  } facts = {.capabilities = 1, .record = RECORD, .buffer = (uint64_t)gpu->records * RECORD, .count = 7};
  for (uint64_t at = 0; at < 7; at++) facts.rates[at] = 251 * (at + 1);
  return answer(query, &facts, sizeof facts);
}

int xe_query(const struct gpu* gpu, void* argument) {
  struct device_query* query = argument;
  if (query->extensions || query->reserved[0] || query->reserved[1]) return xe_refuse(EINVAL);
  switch (query->query) {
    case ENGINES:
      return engines(gpu, query);
    case REGIONS:
      return regions(gpu, query);
    case CONFIG:
      return config(gpu, query);
    case GT_LIST:
      return gts(gpu, query);
    case TOPOLOGY:
      return topology(gpu, query);
    case CYCLES:
      return cycles(gpu, query);
    case STALLS:
      return stalls(gpu, query);
    default:
      return xe_refuse(EINVAL);
  }
}
