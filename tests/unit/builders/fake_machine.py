"""Machines made of files: /proc, /sys and /dev as sources read them. Tests choose the values, and change them between two looks."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path


def write(root: Path, files: dict[str, str | int]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def stat(user: int, idle: int, cores: int = 2) -> str:
    """/proc/stat of a machine of which each core has so many ticks behind it."""

    def line(name: str, times: int) -> str:
        return f"{name} {user * times} 0 {7 * times} {idle * times} {3 * times} 1 2 0 0 0"

    return "\n".join([line("cpu ", cores), *(line(f"cpu{core}", 1) for core in range(cores)), "intr 12345 0 0", "ctxt 1"])


MEMINFO = """MemTotal:       16000 kB
MemFree:         1000 kB
MemAvailable:   12000 kB
Buffers:          100 kB
Cached:          3000 kB
SwapTotal:       2000 kB
SwapFree:        1500 kB
Dirty:             40 kB"""


def diskstats(read: int, written: int, busy_ms: int) -> str:
    """Sectors, sectors and milliseconds; a partition and a loop device beside the disk."""
    rows = [("259 0 nvme0n1", read), ("259 1 nvme0n1p1", read), ("7 0 loop0", read)]
    return "\n".join(f" {name} 10 0 {of} 5 20 0 {written} 6 0 {busy_ms} 11 0 0 0 0 0 0" for name, of in rows)


def net(received: int, sent: int) -> str:
    head = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n"
    return f"{head}  eth0:{received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0"


def pressure(some_us: int, full_us: int) -> str:
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {averages} total={some_us}\nfull {averages} total={full_us}"


NVML = r"""
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef union { double d; unsigned u; unsigned long long ull; } Value;
typedef struct { unsigned field, scope; long long timestamp, latency; unsigned type, status; Value value; } Field;
static unsigned long long energy[2] = {5000, 90000};
static unsigned pcie = 4294967000u;
int nvmlInit_v2(void) { return getenv("FAKE_NVML_BROKEN") ? 999 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { *device = (void*)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void* device, char* name, unsigned length) { snprintf(name, length, "NVIDIA Fake"); return 0; }
int nvmlDeviceGetUUID(void* device, char* name, unsigned length) { snprintf(name, length, "GPU-%ld", (long)device - 1); return 0; }
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) { snprintf(pci->bus_id, 32, "00000000:%lX0:00.0", (long)device); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* value) {
  if (getenv("FAKE_NVML_HANGS")) while (1) sleep(1);
  if ((long)device == 2) return 3;  /* not supported */
  *value = energy[0]; energy[0] += 1500; return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* value) { *value = 70000; return 0; }
int nvmlDeviceGetUtilizationRates(void* device, unsigned* value) { value[0] = 80; value[1] = 30; return 0; }
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* value) { value[0] = 100; value[1] = 60; value[2] = 40; return 0; }
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  unsigned room = *count;
  const char* text = getenv("FAKE_NVML_PROCESSES");  /* "PID:BYTES PID:BYTES", of the first device */
  if (!text) return 3;
  for (*count = 0; (long)device == 1 && *text;) {
    char* end;
    if (*count == room) return 7;  /* insufficient size */
    unsigned pid = strtoul(text, &end, 10);
    processes[(*count)++] = (Process){pid, strtoull(end + 1, &end, 10), 0, 0};
    text = *end ? end + 1 : end;
  }
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* value) { *value = sensor == 0 ? 55 : 0; return 0; }
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* value) { *value = clock == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetFieldValues(void* device, int count, Field* fields) {
  for (int at = 0; at < count; at++) {
    Field* one = fields + at;
    one->status = 0;
    if (one->field == 186 && (long)device == 1) { one->type = 1; one->value.u = 512000; }
    else if (one->field == 197) { one->type = 1; one->value.u = pcie; pcie += 1000; }
    else if (one->field == 138 && one->scope == 0xffffffffu) { one->type = 3; one->value.ull = 7ull << 40; }
    else one->status = 3;
  }
  return 0;
}
"""


def fake_nvml(folder: Path) -> str:
    """NVML of two devices: the first counts its energy, 1.5 J more at each call, and reports its present power; the second reports only
    a mean of power."""
    source, library = folder / "nvml.c", folder / "libnvidia-ml.so.1"
    source.write_text(NVML)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(source)], check=True)
    return str(library)
