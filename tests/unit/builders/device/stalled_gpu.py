"""Recordings of programs that use an Intel GPU, known by construction: processes, their code in the GPU's memory, their kernels, and files
of stall samples as the recorder writes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from spool_files import ProcessFiles, ended_profile

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import ROW, SUFFIX, Block, Header, pack_block, pack_header
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.profile.schema.enums import FrameKind, GpuApi

MS = 1_000_000
GPU, DEVICE = "0000:03:00.0", "Intel(R) Arc(TM) Graphics"
REASONS = ("eustall_tdr", "eustall_sbid", "eustall_active")
BASE = 0xFFFF8001FFFE5000
"""An address of code on a real driver: the GPU reports its low 32 bits."""

Functions = Mapping[str, tuple[int, int]]
"""address and size"""
Stalls = Mapping[tuple[int, str], int]
"""address and reason → samples"""


def module(functions: Functions) -> bytes:
    """An ELF file as Intel's driver makes it for a module."""
    names = b"\0.shstrtab\0" + b"".join(b".text." + name.encode() + b"\0" for name in functions)
    sections = [(0, 0, 0, 0, 0, 0), (1, 3, 0, 0, 64, len(names))]
    for name, (address, size) in functions.items():
        sections.append((names.index(b".text." + name.encode() + b"\0"), 1, 6, address, 64, size))
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 205, 1, 0, 0, 64 + len(names), 0, 64, 0, 0, 64, len(sections), 1)
    return header + names + b"".join(struct.pack("<IIQQQQ24x", *one) for one in sections)


class Program:
    """A process; times are in milliseconds."""

    def __init__(self, pid: int = 100, start_ms: float = 1, gpu: str = GPU) -> None:
        self.files = ProcessFiles(pid, int(start_ms * MS), command="program")
        self.thread = self.files.add("threads", tid=pid, start_ns=int(start_ms * MS), name="main")
        if gpu:
            self.files.add("gpu_devices", device=DEVICE, address=gpu.upper())
        self.modules: dict[int, bytes] = {}
        self._shapes: dict[str, int] = {}
        self._launches = 0

    def load(self, functions: Functions, at_ms: float, until_ms: float | None = None) -> int:
        """Returns the checksum of the code."""
        content = module(functions)
        crc = zlib.crc32(content)
        self.modules[crc] = content
        lowest = min(address for address, _ in functions.values())
        end = max(address + size for address, size in functions.values())
        load = self.files.add("code_loads", crc=crc, device=DEVICE, address=lowest, bytes=end - lowest, time_ns=int(at_ms * MS))
        if until_ms is not None:
            self.files.add("code_unloads", load=load, time_ns=int(until_ms * MS))
        return crc

    def stack(self, *functions: str) -> int:
        node = 0
        for name in functions:
            frame = self.files.add("named_frames", kind=0, name=name)
            node = self.files.add("stacks", parent=node, frame=FrameKind.NAMED << 60 | frame)
        return node

    def run(self, name: str, begin_ms: float, end_ms: float, stack: int = 0) -> None:
        """A kernel that was launched at a stack."""
        if name not in self._shapes:
            self._shapes[name] = self.files.add("kernel_shapes", name=name, device=DEVICE, api=GpuApi.LEVEL_ZERO)
        self._launches += 1
        begin, end, number = int(begin_ms * MS), int(end_ms * MS), self._launches
        api = GpuApi.LEVEL_ZERO
        self.files.add("launches", thread=self.thread, stack=stack, api=api, begin_ns=begin - 10, end_ns=begin - 5, correlation=number)
        self.files.add("kernels", shape=self._shapes[name], correlation=number, start_ns=begin, end_ns=end, stream=1, api=api)


def stretch(begin_ms: float, end_ms: float, stalls: Stalls, dropped: int = 0) -> Block:
    rows = b"".join(ROW.pack(address & 0xFFFF_FFFF, REASONS.index(reason), count) for (address, reason), count in stalls.items())
    return Block(int(begin_ms * MS), int(end_ms * MS), dropped, rows)


def recording(path: Path, programs: Iterable[Program], stretches: Iterable[Block], gpu: str = GPU) -> Path:
    """A recording that has ended and was not sealed."""
    programs = list(programs)
    ended_profile(path, *(program.files for program in programs))
    profile = Folder.open(path)
    code = profile.make_folder("cubins")
    for crc, content in {crc: content for program in programs for crc, content in program.modules.items()}.items():
        code.put(f"{crc:016x}.cubin", content)
    data = pack_header(Header(gpu, 0, 1757, 32, REASONS)) + b"".join(map(pack_block, stretches))
    profile.make_folder(FOLDER).put(f"{gpu.replace(':', '-')}-0{SUFFIX}", data)
    return path
