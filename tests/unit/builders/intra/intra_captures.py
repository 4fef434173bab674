"""Captures made by hand: each warp's records and their times, written as the device and the program write them.

gemm = Kernel("gemm", scopes=[scope(0, "load a", kind="load")], warps=1)
write(profile / "intra" / "7.captures", gemm.frame(), gemm.launch(Cta(0, sm=3, begin=1000, end=2000, warps={0: spans((0, 10, 50))})))
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiflame.intra.captures import HEAD, MAGIC, VERSION, Captures, read
from aiflame.profile.folder.door import Folder

Record = tuple[int, int, int]
"""scope, ends, clock"""


def scope(number: int, name: str, kind: str = "user", **columns: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "pass": "made", "kind": kind, "op": "", "file": "made.py", "line": 1, "loop": None} | {
        "phase": "span", "pair": None, **columns,
    }  # fmt: skip


def spans(*scopes: tuple[int, int, int]) -> list[Record]:
    """Records of scopes (number, begin, end), by time; at one moment ends come first, and inner scopes stay within outer ones."""
    begins = [(at, 1, -end, number) for number, at, end in scopes]
    ends = [(at, 0, -begin, number) for number, begin, at in scopes]
    return [(number, 1 - starts, at) for at, starts, _, number in sorted(begins + ends)]


@dataclass(frozen=True, slots=True)
class Cta:
    number: int
    sm: int = 0
    begin: int = 1_000_000
    end: int = 2_000_000
    """globaltimer"""
    warps: Mapping[int, Sequence[Record]] = field(default_factory=dict)
    magic: int = 0xDEADBEEF


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    scopes: Sequence[dict[str, Any]]
    warps: int = 4
    recorded: Sequence[int] | None = None
    ring: int = 64
    """Records of a warp."""
    spare: int = 24
    """Bytes that are there for alignment."""
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> Sequence[int]:
        return range(self.warps) if self.recorded is None else self.recorded

    @property
    def scratch_bytes(self) -> int:
        return 40 + 4 * self.warps + 8 * self.ring * len(self.ids) + self.spare

    def frame(self) -> bytes:
        header = {
            "kind": "kernel", "key": self.name, "name": self.name, "file": "made.py", "line": 1, "num_warps": self.warps,
            "warp_ids": self.recorded, "scratch_bytes": self.scratch_bytes, "buffer_bytes": 8 * self.ring * len(self.ids),
            "metric": "cycle", "clock64": True, "triton": "3.6.0", "arch": "sm_90", "record_cycles": 0, "scopes": list(self.scopes),
            "plain": None,
            "instrumented": {"registers": 40, "shared": 1024, "spills": 0},
        }  # fmt: skip
        return framed({**header, **self.header})

    def launch(self, *ctas: Cta, **header: Any) -> bytes:
        columns = {
            "kind": "launch", "key": self.name, "device": 0, "stream": 7, "grid": [max(len(ctas), 1), 1, 1], "correlation": 0,
            "begin_ns": 0, "first_cta": 0, "ctas": len(ctas), "launch": 1, "dropped_launches": 0,
        }  # fmt: skip
        return framed({**columns, **header}, b"".join(self.memory(cta) for cta in ctas))

    def memory(self, cta: Cta) -> bytes:
        """Memory as the device writes it: rings wrap."""
        rings = []
        for warp in self.ids:
            ring = [(0, 0)] * self.ring
            for place, (number, ends, clock) in enumerate(cta.warps.get(warp, ())):
                ring[place % self.ring] = (ends << 31 | number << 23 | clock >> 32 & 0x7FF, clock & 0xFFFFFFFF)
            rings += [word for record in ring for word in record]
        counts = [2 * len(cta.warps.get(warp, ())) for warp in range(self.warps)]
        head = struct.pack("<IIIIQQQ", cta.magic, cta.number, cta.sm, 8 * self.ring * len(self.ids), cta.begin, cta.end, cta.end + 100)
        return head + struct.pack(f"<{len(counts)}I", *counts) + struct.pack(f"<{len(rings)}I", *rings) + b"\xee" * self.spare


def framed(header: Any, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return HEAD.pack(MAGIC, VERSION, len(text), len(data)) + text + data + bytes(-len(data) % 8)


def read_written(path: Path, *frames: bytes) -> Captures:
    """Reads `PID.captures`, a file of these frames."""
    return read(Folder.open(write(path, *frames).parent), int(path.stem))


def write(path: Path, *frames: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(frames))
    return path
