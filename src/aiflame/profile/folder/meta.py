"""`meta.json`: facts about a recording (command, host, options, notes) that can be read without its tables. Standard library alone.

Every key may be missing and unknown keys are ignored, so that a key can be added without a new format.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.control_schema import FORMAT
from aiflame.values import asdict, dataclass, field, replace

FILE_NAME = "meta.json"
MOMENTS = "moments"
"""A format that lacks them has sums alone: nothing says how long a device was idle."""
DAMAGED = "meta.json is missing or damaged: command, host and options are unknown"

_LARGEST = 16 << 20
_MOST_VALUES = 1 << 18
"""Of the command's arguments, options and notes together."""
Option = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Host:
    name: str = ""
    cpu: str = ""
    cores: int = 0
    kernel: str = ""
    python: str = ""
    boot_id: str = ""

    def is_here(self) -> bool:
        return self.name in ("", os.uname().nodename)

    @staticmethod
    def here() -> Host:
        return Host(os.uname().nodename, _cpu_model(), os.cpu_count() or 0, os.uname().release, sys.version.split()[0], boot_id())


@dataclass(frozen=True, slots=True)
class Clocks:
    """One moment on three clocks, in nanoseconds."""

    monotonic_ns: int = 0
    raw_ns: int = 0
    realtime_ns: int = 0

    @staticmethod
    def now() -> Clocks:
        return Clocks(time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), time.time_ns())

    def shifted(self, by_ns: int) -> Clocks:
        """The moment so much later, as if the clocks had run alike."""
        return Clocks(self.monotonic_ns + by_ns, self.raw_ns + by_ns, self.realtime_ns + by_ns)


@dataclass(frozen=True, slots=True)
class Recorder:
    """The recording process. Process ids are used again; with the start time the pair is unique."""

    pid: int = 0
    start_ticks: int = 0
    namespace: str = ""
    """the namespace of process ids in which `pid` is valid"""

    @staticmethod
    def this() -> Recorder:
        return Recorder(os.getpid(), start_ticks(os.getpid()) or 0, pid_namespace())

    def alive(self) -> bool:
        ticks = start_ticks(self.pid)
        return ticks is not None and self.start_ticks in (0, ticks)


@dataclass(frozen=True, slots=True)
class JobRank:
    """The recorder's rank in a parallel job, from its launcher's variables."""

    rank: int = 0
    size: int = 0
    """0: unknown"""
    local_rank: int = -1
    """rank among those on this host; -1: unknown"""
    launcher: str = ""
    job: str = ""
    """`job.Job.name`"""


@dataclass(frozen=True, slots=True)
class Imported:
    """Where an imported profile comes from."""

    format: str = ""
    """the tool that wrote it, for people: `torch.profiler`"""
    files: tuple[str, ...] = ()
    """their names"""
    lacks: tuple[str, ...] = ()
    """facts that the format has no place for, each as a noun: `stall reasons`"""
    unused: dict[str, int] = field(default_factory=dict)
    """fields and kinds of events that no view shows, and how often each occurred"""


@dataclass(frozen=True, slots=True)
class AnotherRun:
    """The run of the program whose hardware counters a merged profile has (`aiflame merge`)."""

    profile: str = ""
    """the name of its folder"""
    command: tuple[str, ...] = ()
    started: Clocks = field(default_factory=Clocks)
    steps: int = 0
    """that it had"""
    steps_here: int = 0
    matched: dict[str, int] = field(default_factory=dict)
    """how many kernels and copies of this profile were matched with its by `place` (kernel, layer, phase and place in a step), by `layer`
    (kernel, layer and phase) and by `kernel`; `none`: with none"""
    unmatched_time: float = 0.0
    """the part of the time of kernels and copies that was matched with none"""
    alone: int = 0
    """its counted kernels and copies that none here was matched with"""
    scale: float = 1.0
    """launches here for each that was counted there: counts that belong to no kernel here are multiplied by it"""
    differences: tuple[str, ...] = ()
    """in command, code or devices, where the user merged nevertheless"""


@dataclass(frozen=True, slots=True)
class Kept:
    """The window of a recording with `--last`, and the cause. Sealing leaves out events that ended before or after it."""

    cause: str = ""
    """for people: `step 412 took 5.1 s`"""
    begin_ns: int = 0
    """CLOCK_MONOTONIC"""
    end_ns: int = 0

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Meta:
    format: int = FORMAT
    version: str = ""
    """version of aiflame that recorded"""
    command: tuple[str, ...] = ()
    host: Host = field(default_factory=Host)
    recorder: Recorder = field(default_factory=Recorder)
    options: dict[str, Option] = field(default_factory=dict)
    started: Clocks = field(default_factory=Clocks)
    ended: Clocks | None = None
    exit_status: int | None = None
    """exit status of the command; negative: the signal that ended it; None: unknown"""
    degraded: tuple[str, ...] = ()
    """failures to record or read something, one line each"""
    cpu_ns: int = 0
    """CPU time of the command and of all processes that it waited for, from the operating system; 0: unknown"""
    complete: bool = False
    """the recorder saw the end; False after a crash of the recorder"""
    attached: int = 0
    """the process that ran already and was attached to; 0: the recorder started the program"""
    other_root: bool = False
    """the program's paths lead to other files than the recorder's did: it ran in a container"""
    job_rank: JobRank | None = None
    """None: no launcher started the recorder, or the job has one rank"""
    id: str = ""
    """random, of this recording (`claims.py`)"""
    kept: Kept | None = None
    """None: the profile has the whole recording"""
    another_run: AnotherRun | None = None
    imported: Imported | None = None
    """None: aiflame recorded it"""

    def with_notes(self, *notes: str) -> Meta:
        return replace(self, degraded=tuple(dict.fromkeys((*self.degraded, *notes))))

    def write(self, profile: Folder) -> None:
        profile.write(FILE_NAME, self._text())

    def put(self, profile: Folder) -> None:
        """Writes it while the recording is not sealed, without waiting for the disk: a power failure may lose it."""
        profile.put(FILE_NAME, self._text())

    def _text(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @staticmethod
    def read(profile: Folder) -> Meta:
        """A damaged file gives a Meta with a note about it; a file of a newer format is an error."""
        from aiflame.profile.folder.typed_json import parse_as

        try:
            meta = parse_as(Meta, profile.read(FILE_NAME, limit=_LARGEST) or b"", most_values=_MOST_VALUES)
        except ValueError:
            return Meta().with_notes(DAMAGED)
        refuse_newer(profile.path, meta.format)
        return meta


def refuse_newer(profile: Path, written: int) -> None:
    if written > FORMAT:
        raise AiflameError(
            f"{profile} was written by a newer aiflame (format {written}; this one reads {FORMAT}): upgrade with `pip install -U aiflame`"
        )


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """The namespace of process ids. Until the next boot, a process id from a recording in the same namespace means the same process
    here."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    return None if state in (b"Z", b"X") else int(fields[18])


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
