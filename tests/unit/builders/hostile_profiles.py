"""Profiles as a stranger could send them: whole ones in which something was put that no recorder makes; and a watch over other files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from cubins import DATA
from intra_captures import Cta, Kernel, scope, spans, write
from spool_files import ProcessFiles, ended_profile

from aiflame.profile.folder.meta import Meta
from aiflame.profile.folder.telemetry_files import Header, Packer, Series, pack_header
from aiflame.profile.schema.enums import FrameKind

INODE, DEVICE = 77, 5
CUBIN = 7


def unsealed(path: Path, kind: type[ProcessFiles] = ProcessFiles, behind: str = "") -> Path:
    """A recording that ended, with a file of every kind that a recorder and its program leave. `behind`: bytes behind the texts in
    files other than tables."""
    files = kind(100, 1_000, command="python\0a.py", exe="/usr/bin/python3", cwd="/")
    module = files.add("modules", path="/gone/libx.so", inode=INODE, device=DEVICE, base=0, low=0, high=1 << 20)
    frames = [
        FrameKind.NATIVE << 60 | module << 40 | 0x1000,
        FrameKind.ADDRESS << 60 | 0x70_0000,
        FrameKind.MARK << 60 | files.add("marks", text="m"),
    ]
    stack = 0
    for frame in frames:
        stack = files.add("stacks", parent=stack, frame=frame)
    thread = files.add("threads", tid=100, creator=0, start_ns=1_000, name="main")
    for number in range(20):
        files.add("cpu_samples", thread=thread, stack=1 + number % 3, weight=1, time_ns=2_000 + number, period_ns=5_000_000)
    files.add("ranks", rank=0, size=2, local_rank=0, launcher="mpich", job="run")
    files.add("launches", thread=thread, stack=stack, api=1, correlation=7, begin_ns=2_000)
    shape = files.add("kernel_shapes", name="_Z5scaleIfLi4EEvPT_i", device="gpu", api=1)
    files.add("kernels", shape=shape, api=1, correlation=7, start_ns=3_000, end_ns=9_000)
    files.add("kept_files", kernel="_Z5scaleIfLi4EEvPT_i", kind="ttir", file="graph.txt")
    cubin = (DATA / "lines.cubin").read_bytes()
    files.add("cubins", crc=CUBIN, bytes=len(cubin))
    function = files.add("gpu_functions", cubin=CUBIN, name="_Z5scaleIfLi4EEvPT_i")
    reason = files.add("stall_reasons", name="smsp__pcsamp_warps_issue_stalled_wait")
    window = files.add("gpu_windows", begin_ns=1_000, end_ns=9_000, device="gpu", samples=10)
    files.add("gpu_samples", window=window, function=function, reason=reason, offset=16, samples=10, count=10)
    files.add("allocations", kind=1, device="gpu", api=1, correlation=7, address=4096, bytes=64, time_ns=2_500)
    pool: dict[str, int | str | bytes] = {"device": "gpu", "address": 8192, "bytes": 512, "used": 512, "held": 1024}
    files.add("pool_blocks", kind=1, thread=thread, stack=stack, autograd=1, sequence=2, time_ns=2_600, **pool)
    files.add("pool_blocks", kind=2, time_ns=2_800, **pool)
    of_handle: dict[str, int | str | bytes] = {"memory": 2, "device": "gpu", "api": 1, "handle": 9, "address": 1 << 20, "bytes": 1024}
    for at, number in enumerate((1, 5, 4, 6)):
        files.add("physical_memory", kind=number, time_ns=2_600 + at, correlation=20 + at, **of_handle)
    files.add("memory_refusals", thread=thread, stack=stack, memory="gpu", bytes=4096, time_ns=2_700)
    block = files.add("host_allocations", kind=1, thread=thread, stack=stack, address=4096, bytes=64, weight=640, time_ns=2_600)
    files.add("host_frees", allocation=block, thread=thread, time_ns=2_900)
    ended_profile(path, files, meta=Meta(version="1", command=("p",), complete=True))
    _put(path / "cubins" / f"{CUBIN:016x}.cubin", cubin)
    _put(path / "kept" / "graph.txt", b"the graph")
    _put(path / "jit" / "perf-100.map", b"700000 100 jitted\n")
    _put(path / "binaries" / f"{INODE}-{DEVICE}", Path("/bin/true").read_bytes())
    one = Packer(1)
    header = pack_header(Header("memory", (Series("" + behind, "used" + behind, "bytes"),)))
    _put(path / "telemetry" / "00-memory.records", header + b"".join(one.pack(at, 0, [5.0]) for at in (2_000, 3_000)))
    kernel = Kernel("_Z5scaleIfLi4EEvPT_i" + behind, [scope(0, "kernel" + behind, file=f"a{behind}.py")])
    write(path / "intra" / "100.captures", kernel.frame(), kernel.launch(Cta(0, warps={0: spans((0, 1_000, 2_000))})))
    return path


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def everything_in(profile: Path) -> list[str]:
    return sorted(str(path.relative_to(profile)) for path in profile.rglob("*"))


def link(path: Path, canary: Path) -> None:
    path.symlink_to(canary)


def hard_link(path: Path, canary: Path) -> None:
    """A folder can have no second name: its files get one each."""
    if canary.is_dir():
        shutil.copytree(canary, path, copy_function=os.link)
    else:
        path.hardlink_to(canary)


def pipe(path: Path, canary: Path) -> None:
    os.mkfifo(path)


Plant = Callable[[Path, Path], None]
FOREIGN: dict[Plant, str] = {link: "is a symbolic link", hard_link: "hard link", pipe: "is a pipe"}


def replaced(profile: Path, part: str, plant: Plant, outside: Path) -> Path:
    """Replaces a part of a profile. The canary is the original, moved outside, where the planted link leads."""
    outside.mkdir(parents=True)
    canary = outside / "canary"
    (profile / part).rename(canary)
    plant(profile / part, canary)
    return canary


class Watch:
    """Notes each touch of files that nobody may touch: by inotify, which reports even a look at their content."""

    _EVENTS = 0x1 | 0x2 | 0x4 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
    """IN_ACCESS, MODIFY, ATTRIB, OPEN, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF"""
    _QUEUE_OVERFLOW = 0x4000

    def __init__(self, canary: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._paths: dict[int, Path] = {}
        for path in [canary, *(canary.rglob("*") if canary.is_dir() else ())]:
            number = libc.inotify_add_watch(self._queue, os.fsencode(path), self._EVENTS)
            assert number >= 0, os.strerror(ctypes.get_errno())
            self._paths[number] = path

    def seen(self) -> list[str]:
        events, data = [], b""
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._queue, 1 << 16):
                data += block
        at = 0
        while at < len(data):
            number, mask, _, length = struct.unpack_from("iIII", data, at)
            name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
            events.append(f"{self._paths.get(number)} {name} {mask:#x}")
            at += 16 + length
        return events

    def close(self) -> None:
        os.close(self._queue)


@contextlib.contextmanager
def untouched(canary: Path) -> Iterator[None]:
    watch = Watch(canary)
    try:
        yield
        assert watch.seen() == []
    finally:
        watch.close()
