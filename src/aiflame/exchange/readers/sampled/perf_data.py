"""`perf.data`, as `perf record` writes it: stacks of addresses, each as an offset in a library.

Names of functions are not in the file: they are those of the libraries on this machine that have the same build ids (`perf_names.py`).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from pathlib import PurePath

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.perf_names import PerfNames
from aiflame.exchange.readers.sampled.perf_records import MAGIC, SWAPPED, DamagedError, Fork, Mapping, Name, PerfFile, Sample
from aiflame.exchange.readers.sampled.perf_rows import PerfRows, is_idle
from aiflame.exchange.readers.sampled.samples import NO_TIME, native_kind
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind
from aiflame.values import replace

_MOST = 512 << 20
_KERNEL_PID = 0xFFFFFFFF
_CONTEXTS = 1 << 64
_LOWEST_CONTEXT = _CONTEXTS - 4095
_KERNEL, _GUEST_KERNEL = _CONTEXTS - 128, _CONTEXTS - 2176
_HIGH = 1 << 63
_MOST_TIME = 1 << 62


def is_one(head: bytes) -> bool:
    return head.startswith((MAGIC, SWAPPED))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    if source.head.startswith(SWAPPED):
        raise AiflameError(f"{source.path} was recorded on a machine with the other byte order: import the text of `perf script`")
    file = PerfFile(source.whole(_MOST))
    try:
        file.read()
        progress(0.5)
        reading = _Reading(file, making, PerfNames(file, source.path))
        reading.read()
    except DamagedError as error:
        raise AiflameError(f"{source.path} is a damaged file of perf: {error}") from None


class _Maps:
    """The files that are mapped in a process, by address."""

    def __init__(self, mappings: list[Mapping] | None = None) -> None:
        self.all = mappings or []
        self.begins = [one.begin for one in self.all]
        self.changes = 0

    def add(self, mapping: Mapping) -> None:
        self.changes += 1
        at = bisect_right(self.begins, mapping.begin)
        if at and self.begins[at - 1] == mapping.begin:
            self.all[at - 1] = mapping
        else:
            self.all.insert(at, mapping)
            self.begins.insert(at, mapping.begin)

    def at(self, address: int) -> Mapping | None:
        place = bisect_right(self.begins, address) - 1
        return self.all[place] if place >= 0 and address < self.all[place].end else None


class _Reading:
    def __init__(self, file: PerfFile, making: Making, names: PerfNames) -> None:
        self.file, self.making, self.names = file, making, names
        self.perf = PerfRows(making)
        self._maps: dict[int, _Maps] = {}
        self._names: dict[int, str] = {}
        self._calls: dict[tuple[int, int, bytes], int] = {}

    def read(self) -> None:
        file, making = self.file, self.making
        for record in file.records:
            if isinstance(record, Sample):
                self._add(record)
            elif isinstance(record, Mapping):
                self._of(record.pid).add(record)
            elif isinstance(record, Name):
                self._names[record.tid] = record.name
                if record.exec:
                    self._forget(record.pid)
            else:
                self._fork(record)
        making.lacks = ("names of native functions",) if not self.names.found else ()
        if missing := self.names.missing():
            making.note(f"perf's file has no names of functions, and {missing}: `perf script`, on the machine that recorded it, gives them")
        if file.user_stacks:
            making.note(
                f"{file.user_stacks:,} samples have a copy of their stack and no callers (--call-graph dwarf): `perf script` finds them"
            )
        if file.cut:
            making.note("the file of perf breaks off: its last records are missing")
        if file.skipped:
            making.unused["records of perf that are no samples"] += file.skipped
        making.command = file.command
        cores = file.facts.get("cores", "0")
        facts = {"name": file.facts.get("host", ""), "kernel": file.facts.get("kernel", ""), "cpu": file.facts.get("cpu", "")}
        making.host = replace(making.host, cores=int(cores), **facts)
        times = [record.time for record in file.records if isinstance(record, Sample) and record.time]
        began = times[0] + file.realtime_ns if times and file.realtime_ns else 0
        making.realtime_ns = began if 0 < began < _MOST_TIME else 0
        self.perf.finish()

    def _of(self, pid: int) -> _Maps:
        return self._maps.setdefault(pid, _Maps())

    def _forget(self, pid: int) -> None:
        """The process runs another program now."""
        fresh = _Maps()
        fresh.changes = self._of(pid).changes + 1
        self._maps[pid] = fresh

    def _fork(self, record: Fork) -> None:
        self._names[record.tid] = self._names.get(record.parent_tid, "")
        if record.pid != record.parent and record.parent in self._maps:
            copy = _Maps(list(self._maps[record.parent].all))
            copy.changes = self._of(record.pid).changes + 1
            self._maps[record.pid] = copy

    def _add(self, sample: Sample) -> None:
        comm = self._names.get(sample.tid) or self._names.get(sample.pid) or f":{sample.tid}"
        if not sample.tid:
            comm = "swapper"
        process, thread = self.perf.owner(comm, sample.pid, sample.tid)
        call = self._call(process, sample.pid, self._of(sample.pid), sample.chain)
        at = sample.time if 0 < sample.time < _MOST_TIME else NO_TIME
        self.perf.add(process, thread, call, sample.event.name, sample.period, at, idle=is_idle(comm, sample.tid))

    def _call(self, process: int, pid: int, maps: _Maps, chain: bytes) -> int:
        key = process, maps.changes + self._of(_KERNEL_PID).changes, chain
        call = self._calls.get(key)
        if call is None:
            frames: list[AnyFrame] = []
            kernel: bool | None = None
            for (address,) in struct.iter_unpack("<Q", chain):
                if address >= _LOWEST_CONTEXT:
                    kernel = address in (_KERNEL, _GUEST_KERNEL)
                else:
                    in_kernel = address >= _HIGH if kernel is None else kernel
                    # All but the innermost are addresses behind a call.
                    frames.append(self._frame(pid, maps, address, in_kernel, before=int(bool(frames))))
            call = -1
            for frame in reversed(frames):
                call = self.perf.rows.call(process, call, frame)
            self._calls[key] = call
        return call

    def _frame(self, pid: int, maps: _Maps, address: int, kernel: bool, before: int) -> AnyFrame:
        mapping = (self._of(_KERNEL_PID) if kernel else maps).at(address)
        file = PurePath(mapping.file).name if mapping is not None else ""
        if kernel:
            name = self.names.of_kernel(mapping, max(address - before, 0)) if mapping is not None else ""
            module = "[kernel]" if not file or file.startswith("[kernel") else file
            return NamedFrame(name or f"0x{address:x}", Kind.OS_KERNEL, module)
        if mapping is None or file in ("", "anon") or file.startswith("[anon"):
            return self.names.of_map(pid, max(address - before, 0)) or NamedFrame(f"0x{address:x}", Kind.C, "[no file]")
        offset = address - mapping.begin + mapping.offset
        name = self.names.of_file(mapping, offset - before)
        return NamedFrame(name, native_kind(name), file) if name else NamedFrame(f"{file}+0x{offset:x}", Kind.C, file)
