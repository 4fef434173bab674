// The state of the machine, which all processes on it share, and the GPUs' side of it.
#pragma once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 4, UNITS = 2, CORES = 8, RECORDS = 8192, RECORD = 64, PERIOD_NS = 5000000 };

#define MEMORY (64ll << 30)  // of a GPU's file, which has holes

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
  atomic_uint_least64_t next_offset;  // of buffers, in the files of the GPUs
};
struct gpu {
  char node[32];
  int major, minor, units, cores, records;
  ino_t inode, streams[UNITS];
  int held[UNITS];  // descriptors, to ask whether a stream is open
};

extern struct gpu xe_gpus[GPUS];
extern int xe_gpu_count;
extern struct state* xe_state;
extern const char* xe_root;

// Reads the machine's description; once.
void xe_begin(void);
void xe_lock(void);
void xe_unlock(void);
uint64_t xe_now_ns(void);

// Opens a path as it is.
int xe_real_open(const char* path, int flags);

// The driver's other calls: queries, and memory, queues and the execution of commands.
int xe_query(const struct gpu* gpu, void* argument);
int xe_memory_call(const struct gpu* gpu, unsigned long request, void* argument);

// The memory at an address of this process's GPU; NULL: nothing is mapped there.
unsigned char* xe_memory(uint64_t address);

// Executes the commands at an address, on a unit.
void xe_execute(const struct gpu* gpu, int unit, uint64_t address);

// A timer of the GPU.
enum { XE_CLOCK_HZ = 19200000 };
uint64_t xe_ticks(void);
uint64_t xe_ticks_at(uint64_t ns);

// Sets errno, and returns -1.
int xe_refuse(int number);

struct stalls {
  uint8_t active, tdr, other, control, pipestall, send, dist_acc, sbid, sync, inst_fetch;
};
int fake_xe_sample(const char* node, int unit_number, int core_number, uint64_t address, const struct stalls* seen);

// Writes the truth; by itself where a process ends, but not where it becomes another program.
void fake_xe_tell(void);

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
