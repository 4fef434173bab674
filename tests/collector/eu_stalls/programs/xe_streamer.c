// Executes as much of a GPU's commands as a driver can see: writes to memory at the end of a command, and kernels, which it samples while they "run".
//
// The commands' layouts are those of Intel's Programmer's Reference Manuals for Xe_HPC and Xe2.
#include "xe_machine.h"

enum { MOST_COMMANDS = 100000, DEEPEST = 8, GROUP_NS = 1000000, LARGEST_KERNEL = 1 << 16 };

static uint64_t instruction_base;

// The time at which the GPU is in its batch of commands: kernels alone take time, however busy this processor is.
static _Thread_local uint64_t clock_ns;

static uint64_t pair(const uint32_t* words) { return words[0] | (uint64_t)words[1] << 32; }

static void put(uint64_t address, const void* value, size_t size) {
  unsigned char* to = xe_memory(address);
  if (to) memcpy(to, value, size);
}

static void put_ticks(uint64_t address, size_t size) {
  uint64_t ticks = xe_ticks_at(clock_ns);
  put(address, &ticks, size);
}

static uint32_t rounds_of(const uint32_t* groups) { return groups[0] * (groups[1] ? groups[1] : 1) * (groups[2] ? groups[2] : 1); }

// How often each instruction of each kernel was sampled.
static struct {
  uint64_t address;
  uint32_t samples[LARGEST_KERNEL / 8];
} truth[16];

// $FAKE_XE_ROOT/truth: the process, the address, the offset and the number of records of each sampled instruction.
__attribute__((destructor)) void fake_xe_tell(void) {
  if (!truth[0].address) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/truth", xe_root);
  FILE* file = fdopen(openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600), "w");
  if (!file) return;
  for (int kernel = 0; kernel < 16; kernel++)
    for (uint32_t at = 0; at < LARGEST_KERNEL / 8; at++)
      if (truth[kernel].samples[at])
        fprintf(file, "%d %llx %x %u\n", getpid(), (unsigned long long)truth[kernel].address, at * 8, truth[kernel].samples[at]);
  fclose(file);
}

static uint32_t* samples_of(uint64_t address) {
  for (int kernel = 0; kernel < 16; kernel++) {
    if (!truth[kernel].address) truth[kernel].address = address;
    if (truth[kernel].address == address) return truth[kernel].samples;
  }
  abort();
}

// Every instruction was seen active once, and either sent a message and waited, or waited for others, or for the result of another one.
static void sample(const struct gpu* gpu, int unit, uint64_t address, const unsigned char* code) {
  uint32_t* samples = samples_of(address);
  for (uint32_t at = 0; at < LARGEST_KERNEL;) {
    uint32_t word;
    memcpy(&word, code + at, sizeof word);
    uint32_t opcode = word & 0x7f;
    if (!opcode) break;  // illegal: the code's end
    int sends = opcode == 0x31 || opcode == 0x32, syncs = opcode == 1;
    struct stalls seen = {.active = 1, .send = sends ? 5 : 0, .sync = syncs ? 7 : 0, .sbid = !sends && !syncs ? 2 : 0};
    samples[at / 8] += fake_xe_sample(gpu->node, unit, (int)(at / 16), address + at, &seen) == 1;
    at += word >> 29 & 1 ? 8 : 16;
  }
}

// A kernel takes a millisecond for each of its groups, and is sampled in every second one.
static void run_kernel(const struct gpu* gpu, int unit, uint64_t address, const uint32_t* groups) {
  const unsigned char* code = xe_memory(address);
  for (uint32_t round = 0; code && round < rounds_of(groups); round++) {
    if (round % 2 == 0) sample(gpu, unit, address, code);
    clock_ns += GROUP_NS;
    while (xe_now_ns() < clock_ns) usleep(5);
  }
}

// COMPUTE_WALKER; its post-sync operation writes a value, or two pairs of times.
static void walk(const struct gpu* gpu, int unit, const uint32_t* words) {
  int older = (words[0] & 0xff) == 0x25, descriptor = older ? 18 : 19, after = descriptor + 8;
  uint64_t kernel = instruction_base + (words[descriptor] & ~63u), to = pair(words + after + 1), times[4];
  uint32_t operation = words[after] & 3, short_times[4];
  times[0] = times[1] = xe_ticks_at(clock_ns);
  run_kernel(gpu, unit, kernel, words + 7);
  times[2] = times[3] = xe_ticks_at(clock_ns);
  for (int at = 0; at < 4; at++) short_times[at] = (uint32_t)times[at];
  if (operation == 1) put(to, words + after + 3, 8);
  if (operation == 3) older ? put(to, short_times, sizeof short_times) : put(to, times, sizeof times);
}

static void add(uint32_t operation, uint64_t address, uint64_t value) {
  unsigned char* to = xe_memory(address);
  if (!to) return;
  if (operation & 0x20) {
    uint64_t* word = (uint64_t*)to;
    *word = operation == 0x25 ? *word + 1 : operation == 0x26 ? *word - 1 : operation == 0x27 ? *word + value : operation == 0x24 ? value : *word;
  } else {
    uint32_t* word = (uint32_t*)to;
    uint32_t other = (uint32_t)value;
    *word = operation == 5 ? *word + 1 : operation == 6 ? *word - 1 : operation == 7 ? *word + other : operation == 4 ? other : *word;
  }
}

// Commands of the streamer itself, but those that lead elsewhere.
static void manage(uint32_t code, const uint32_t* words) {
  uint64_t address = pair(words + 1);
  switch (code) {
    case 0x20:  // store data
      put(address & ~3ull, words + 3, words[0] >> 21 & 1 ? 8 : 4);
      break;
    case 0x24: {  // store a register: half of a clock
      uint64_t ticks = xe_ticks_at(clock_ns);
      uint32_t number = words[1] & 0xfff, half = (uint32_t)(number == 0x35c || number == 0x3ac ? ticks >> 32 : ticks);
      put(pair(words + 2) & ~3ull, &half, 4);
      break;
    }
    case 0x26:  // flush, with a write
      if ((words[0] >> 14 & 3) == 1) put(address & ~7ull, words + 3, 8);
      if ((words[0] >> 14 & 3) == 3) put_ticks(address & ~7ull, 8);
      break;
    case 0x2f:  // atomic
      add(words[0] >> 8 & 0xff, address & ~3ull, (words[0] & 0xff) + 2 > 3 ? words[3] : 0);
      break;
    default:
      break;
  }
}

// Commands of the pipeline.
static void render(const struct gpu* gpu, int unit, const uint32_t* words) {
  if (words[0] >> 16 == 0x7a00) {  // PIPE_CONTROL
    uint32_t operation = words[1] >> 14 & 3;
    uint64_t address = pair(words + 2) & ~3ull;
    if (operation == 1) put(address, words + 4, 8);
    if (operation == 3) put_ticks(address, 8);
  } else if (words[0] >> 16 == 0x6101) {  // STATE_BASE_ADDRESS
    instruction_base = pair(words + 10) & ~0xfffull;
  } else if ((words[0] & 0xfffc0000) == 0x72080000) {
    walk(gpu, unit, words);
  }
}

void xe_execute(const struct gpu* gpu, int unit, uint64_t address) {
  uint64_t back[DEEPEST];
  int deep = 0;
  clock_ns = xe_now_ns();
  for (int command = 0; command < MOST_COMMANDS; command++) {
    const uint32_t* words = (const uint32_t*)xe_memory(address);
    if (!words) return;
    uint32_t type = words[0] >> 29, code = words[0] >> 23 & 0x3f, length = (words[0] & 0xff) + 2;
    if (!type && code < 0x10) length = 1;
    if (!type && code == 0x20) length = (words[0] & 0x3ff) + 2;
    if (type == 3 && words[0] >> 16 == 0x6904) length = 1;
    if (!type && code == 0x0a) {  // the end of a batch
      if (!deep) return;
      address = back[--deep];
      continue;
    }
    if (!type && code == 0x31) {  // the start of another one
      if (words[0] >> 22 & 1 && deep < DEEPEST) back[deep++] = address + 4 * length;
      address = pair(words + 1) & 0xfffffffffffcull;
      continue;
    }
    if (!type) manage(code, words);
    if (type == 3) render(gpu, unit, words);
    address += 4 * length;
  }
}
