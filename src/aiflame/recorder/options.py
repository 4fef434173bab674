"""The options of a recording."""

from __future__ import annotations

import re

from aiflame.errors import AiflameError
from aiflame.profile.schema.control_schema import GpuCounters, GpuSampling
from aiflame.recorder.tracing import DEFAULT
from aiflame.values import dataclass

HOST_MEMORY_BYTES = 512 << 10
"""The default number of bytes for each sample of host memory."""
INTERVAL_MS = 50
"""The default interval between readings of telemetry."""
MOST_KEPT = 20
LEASE_BYTES = 1 << 30
"""If the recorder of a ring is gone, nobody removes anything: the processes may then write so much more."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    cpu_rate: int = 199
    """Samples of each thread in a second of CPU time; 0: none."""
    wall_rate: int = 0
    """Samples of each thread in a second of wall-clock time; 0: none."""
    waits: bool = True
    """Look at waiting threads a few times a second, if wall-clock time is not sampled."""
    max_bytes: int = 0
    """The most bytes that the recording may take on disk; 0: no limit."""
    children: bool = True
    """Record child processes."""
    python: bool = True
    openmp: bool = True
    jit: bool = True
    opencl: bool = True
    cuda: bool = True
    rocm: bool = True
    gpu_sampling: int = GpuSampling.AUTO
    """GpuSampling, or 5 to 31: the logarithm of a fixed period in cycles."""
    gpu_counters: str = "auto"
    """`off`, `auto`, `on`, or the vendor's names of counters, separated by commas."""
    gpu_memory: bool = False
    """Record allocations of device memory."""
    host_memory_every: int = 0
    """A sample of host memory for each so many bytes allocated, on average; 0: none."""
    meaning: bool = True
    """Run our Python code in the program, which names layers, steps and kernels. Without it there are only frames."""
    regions: bool = True
    """Record regions that the program marks with NVTX and ITT."""
    triton_names: bool = False
    """Give specializations of Triton kernels readable names in their binaries, too."""
    keep_ir: bool = False
    """Keep the compilers' intermediate representations."""
    sources: bool = True
    """Keep the texts of the source files whose code was sampled."""
    trace: str = DEFAULT
    """Runtimes whose calls are traced: names of `tracing.BACKENDS`, separated by commas."""
    trace_stacks: bool = False
    """Record the stack of every traced call, also for runtimes with many calls."""
    intra: str = ""
    """Passes inside Triton kernels, from `intra.parse_intra`; empty: none."""
    telemetry_ms: int = INTERVAL_MS
    """Milliseconds between readings of telemetry; 0: no telemetry."""
    last_ms: int = 0
    """Keep only so many milliseconds; 0: everything."""
    on: str = ""
    """When to keep them, beside the end and on request: `slow-step:K`, `hang:SECONDS` and `signal:NAME`, separated by commas."""
    keep: int = MOST_KEPT
    """The most profiles kept of a recording with `last_ms`, the newest ones."""

    @property
    def counted(self) -> tuple[int, str]:
        """CONTROL.gpu_counters, and the counters that the user has named."""
        named = {"off": GpuCounters.OFF, "auto": GpuCounters.AUTO, "on": GpuCounters.ON}.get(self.gpu_counters.lower())
        return (GpuCounters.ON, self.gpu_counters) if named is None else (named, "")

    @property
    def looks_at_waits(self) -> bool:
        return self.waits and not self.wall_rate and self.cpu_rate > 0

    def __post_init__(self) -> None:
        for name, rate in (("--cpu-rate", self.cpu_rate), ("--wall", self.wall_rate)):
            if not 0 <= rate <= 10_000:
                raise AiflameError(f"{name} {rate} is out of range: choose 0 to 10000 samples a second")
        if self.on:
            from aiflame.recorder.ring.triggers import parse_on

            parse_on(self.on)
        if self.intra and not (self.meaning and self.python):
            raise AiflameError("--intra needs aiflame's Python in the program: leave --no-meaning and --no-python out")


_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_LONGEST_S = 86_400


def parse_last(text: str) -> int:
    """`90`, `90s`, `2m`, `1h` → milliseconds; an empty text: 0."""
    if not text:
        return 0
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", text.lower())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0
    if not 1 <= seconds <= _LONGEST_S:
        raise AiflameError(f"--last {text}: write a time of 1 s to 24 h like 90s, 2m or 1h")
    return int(seconds * 1000)


_LARGEST = 1024**6
_SHOWN = 40
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str) -> int:
    """`500M`, `2G`, `1048576` → bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    if not match:
        raise AiflameError(f"{text!r} is not a size: write it like 500M or 2G")
    size = float(match[1]) * _UNITS[match[2]]
    if 0 < size < 1 or size >= _LARGEST:
        raise AiflameError(f"{text[:_SHOWN]} is out of range for a size: choose 1 byte to a million T")
    return int(size)


def parse_host_memory(wanted: bool, every: str) -> int:
    """`--host-memory` and the text of `--host-memory-every` → RecordOptions.host_memory_every."""
    if not every:
        return HOST_MEMORY_BYTES if wanted else 0
    if not wanted:
        raise AiflameError("--host-memory-every belongs to --host-memory: add that")
    size = parse_size(every)
    if not 1 <= size <= 1 << 40:
        raise AiflameError(f"--host-memory-every {every}: choose 1 byte to 1T")
    return size


def parse_sampling(text: str) -> int:
    """`off`, `auto`, or a period in cycles, which is rounded to a power of two → CONTROL.gpu_sampling."""
    named = {"off": GpuSampling.OFF, "auto": GpuSampling.AUTO}.get(text.lower())
    if named is not None:
        return int(named)
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 32 <= int(text) <= 1 << 31:
        raise AiflameError(f"--gpu-sampling {text}: use off, auto, or a period of 32 to 2147483648 cycles")
    return (3 * int(text) // 4).bit_length()


def parse_counters(text: str) -> str:
    """`off`, `auto`, `on`, or names of counters. Only counters that are sums are accepted: values of adjacent stretches of time must add
    up."""
    if text.lower() in ("off", "auto", "on"):
        return text.lower()
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not re.fullmatch(r"[A-Za-z][\w.]*__\w+\.(sum|avg|max)", name):
            raise AiflameError(
                f"--gpu-counters {text}: {name!r} is no sum of a counter: use off, auto, on, or names like dram__bytes_read.sum, "
                "separated by commas"
            )
    if not names:
        raise AiflameError(f"--gpu-counters {text!r}: use off, auto, on, or names of counters, separated by commas")
    return ",".join(names)


def parse_telemetry(text: str) -> int:
    """`off`, or milliseconds → milliseconds, 0 for none."""
    if text.lower() == "off":
        return 0
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 5 <= int(text) <= 60_000:
        raise AiflameError(f"--telemetry {text}: use off, or an interval of 5 to 60000 milliseconds")
    return int(text)
