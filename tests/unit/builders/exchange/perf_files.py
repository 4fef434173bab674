"""Writes `perf.data` files as `perf record` does, as files and as it writes them into a pipe."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

IP, TID, TIME, CALLCHAIN, ID, CPU, PERIOD, IDENTIFIER = (1 << bit for bit in (0, 1, 2, 5, 6, 7, 8, 16))
USUAL = IP | TID | TIME | CALLCHAIN | CPU | PERIOD | IDENTIFIER
KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512
CPU_CLOCK, PAGE_FAULTS = 0, 2
EXEC, HAS_BUILD_ID, HAS_SIZE = 1 << 13, 1 << 14, 1 << 15


def text(value: str) -> bytes:
    """A text of a record: it ends in zeros, at a multiple of 8."""
    data = value.encode() + b"\0"
    return data + bytes(-len(data) % 8)


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


@dataclass
class PerfFile:
    """One process or several, sampled by events that are numbered from 1."""

    sample_type: int = USUAL
    events: Sequence[int] = (CPU_CLOCK,)
    """numbers of software events"""
    parts: list[bytes] = field(default_factory=list)
    build_ids: dict[str, bytes] = field(default_factory=dict)

    def _end(self, pid: int, tid: int, time: int) -> bytes:
        """The fields of a sample at the end of other records."""
        return struct.pack("<IIQ", pid, tid, time) + struct.pack("<IIQ", 0, 0, 1)

    def name(self, pid: int, tid: int, name: str, time: int = 0, *, exec: bool = False) -> None:
        self.parts.append(record(3, struct.pack("<II", pid, tid) + text(name) + self._end(pid, tid, time), EXEC if exec else 0))

    def map(self, pid: int, begin: int, size: int, offset: int, file: str, time: int = 0, build_id: bytes = b"") -> None:
        identity = struct.pack("<B3x20s", len(build_id), build_id) if build_id else struct.pack("<IIQQ", 8, 1, 5, 0)
        body = struct.pack("<iIQQQ", pid, max(pid, 0), begin, size, offset) + identity + struct.pack("<II", 5, 2)
        misc = HAS_BUILD_ID if build_id else 0
        self.parts.append(record(10, body + text(file) + self._end(max(pid, 0), max(pid, 0), time), misc))

    def fork(self, pid: int, tid: int, parent: int, parent_tid: int, time: int) -> None:
        self.parts.append(record(7, struct.pack("<IIIIQ", pid, parent, tid, parent_tid, time) + self._end(pid, tid, time)))

    def sample(self, pid: int, tid: int, time: int, chain: Sequence[int], period: int = 10_000_000, event: int = 1) -> None:
        body = struct.pack("<QQIIQIIQ", event, chain[-1], pid, tid, time, 0, 0, period) + struct.pack(
            f"<Q{len(chain)}Q", len(chain), *chain
        )
        self.parts.append(record(9, body))

    def _attr(self, event: int) -> bytes:
        flags = 1 << 10 | 1 << 18  # a frequency; other records end in fields of samples
        return struct.pack("<IIQQQQQ", 1, 128, event, 99, self.sample_type, 4, flags) + bytes(80)

    def as_file(self, *, host: str = "host", command: Sequence[str] = ("perf", "record", "work"), data: bytes | None = None) -> bytes:
        body = b"".join(self.parts) if data is None else data
        attrs = b"".join(self._attr(event) + struct.pack("<QQ", 104 + 8 * number, 8) for number, event in enumerate(self.events))
        ids = b"".join(struct.pack("<Q", number + 1) for number in range(len(self.events)))
        begin = 104 + len(ids)
        data_begin = begin + len(attrs)
        features = {
            2: b"".join(self._build_ids()),
            3: self._string(host),
            7: struct.pack("<II", 8, 4),
            11: struct.pack("<I", len(command)) + b"".join(map(self._string, command)),
        }
        place = data_begin + len(body) + 16 * len(features)
        table, content = b"", b""
        for one in features.values():
            table += struct.pack("<QQ", place + len(content), len(one))
            content += one
        bits = sum(1 << feature for feature in features)
        header = (
            b"PERFILE2" + struct.pack("<QQQQQQQQ", 104, 144, begin, len(attrs), data_begin, len(body), 0, 0) + bits.to_bytes(32, "little")
        )
        return header + ids + attrs + body + table + content

    def as_pipe(self) -> bytes:
        attrs = [record(64, self._attr(event) + struct.pack("<Q", number + 1)) for number, event in enumerate(self.events)]
        return b"PERFILE2" + struct.pack("<Q", 16) + b"".join((*attrs, *self.parts, *self._build_ids()))

    def _build_ids(self) -> list[bytes]:
        return [record(67, struct.pack("<i20sB3x", -1, own, len(own)) + text(name), HAS_SIZE) for name, own in self.build_ids.items()]

    @staticmethod
    def _string(value: str) -> bytes:
        data = value.encode() + b"\0"
        data += bytes(-len(data) % 64)
        return struct.pack("<I", len(data)) + data


CODE = 0x55AA_0000_0000
HIGH = 0xFFFF_FFFF_8110_0000


def story() -> PerfFile:
    file = PerfFile(events=(CPU_CLOCK, PAGE_FAULTS))
    file.name(10, 10, "work", exec=True)
    file.map(10, CODE, 0x1000, 0x2000, "/usr/bin/work")
    file.map(-1, HIGH, 0x10_0000, HIGH, "[kernel.kallsyms]_text")
    file.sample(10, 10, 1_000_000, [USER, CODE + 0x30, CODE + 0x40])
    file.sample(10, 10, 2_000_000, [KERNEL, HIGH + 5, USER, CODE + 0x30, CODE + 0x40])
    file.sample(10, 10, 2_500_000, [USER, CODE + 0x10], 3, event=2)
    file.fork(10, 11, 10, 10, 3_000_000)
    file.name(10, 11, "helper", 3_100_000)
    file.sample(10, 11, 4_000_000, [USER, CODE + 0x50, 0x1234])
    file.fork(20, 20, 10, 10, 5_000_000)
    file.sample(20, 20, 6_000_000, [USER, CODE + 0x60])
    file.name(20, 20, "child", 7_000_000, exec=True)
    file.sample(20, 20, 8_000_000, [USER, CODE + 0x60])
    file.sample(0, 0, 9_000_000, [KERNEL, HIGH + 9])
    return file
