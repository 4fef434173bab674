"""Reads files of captures: records from inside compiled kernels, as the device wrote them.

`PROFILE/intra/PID.captures` is a sequence of frames: magic, version, sizes, a JSON text, bytes. A frame describes a
kernel (its scopes and the layout of its memory) or holds the memory of one launch. The program writes the file while it runs and may be
killed at any moment: only a truncated or damaged frame itself is lost.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.json_data import parse
from aiflame.values import dataclass, field

FOLDER = "intra"
SUFFIX = ".captures"
MAGIC = b"AFIC"
VERSION = 1
HEAD = struct.Struct("<4sIIQ")
"""Magic, version, bytes of JSON, bytes of data; the data is padded to 8."""
MOST_SCOPES = 256
"""A record has 8 bits for its scope."""

_NAME = re.compile(rf"(0|[1-9][0-9]{{0,9}}){re.escape(SUFFIX)}")
_LARGEST_JSON = 16 << 20
_MOST_VALUES = 1 << 16
"""Values in the JSON of a frame: a few dozen for each scope."""
_LONGEST = 4096
"""Characters of a name."""
_KINDS = ("load", "mma", "barrier", "wait", "store", "loop", "region", "role", "user", "async")
_PHASES = ("span", "issue", "wait")

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Scope:
    """A timed part of a kernel."""

    number: int
    name: str
    of_pass: str
    kind: str
    """load, mma, barrier, wait, store, loop, region, role, user or async"""
    op: str
    file: str
    line: int
    loop: int
    """The loop that contains it, -1: none."""
    phase: str
    """`issue`: asynchronous work is started here; `wait`: it is awaited here; `span`: all work is between begin and end"""
    pair: int
    """For a wait: the scope that issued the awaited work; -1: none or unknown."""


@dataclass(frozen=True, slots=True)
class Build:
    """The resources of a compiled kernel; -1: unknown."""

    registers: int = -1
    shared: int = -1
    spills: int = -1
    ns: int = -1
    """The duration of a launch, if it was measured."""


@dataclass(frozen=True, slots=True)
class Kernel:
    key: str
    name: str
    file: str
    line: int
    warps: int
    """Warps of a CTA, including those of warp specialization."""
    recorded: tuple[int, ...]
    """The warps that record."""
    scratch_bytes: int
    """Bytes of memory for each CTA."""
    clock_bits: int
    triton: str
    arch: str
    record_cycles: float
    """The calibrated cost of a record; -1: not calibrated."""
    scopes: tuple[Scope, ...]
    plain: Build
    instrumented: Build
    scopes_left_out: int = 0
    """Scopes beyond the number that records can distinguish."""


@dataclass(frozen=True, slots=True)
class Launch:
    key: str
    device: int
    stream: int
    grid: tuple[int, int, int]
    correlation: int
    begin_ns: int
    first_cta: int
    ctas: int
    number: int
    """Number of this launch among all launches of the kernel, from 1."""
    dropped_launches: int
    ring_bytes: int
    """Size of the ring that CTAs shared (`cta_ring`), 0: each CTA had memory of its own."""
    data: Bytes
    """`ctas` times the kernel's scratch memory; or the ring, if that is smaller."""

    @property
    def overwrote_ctas(self) -> bool:
        """True if CTAs overwrote earlier ones, so that only the last are left."""
        return self.ring_bytes > 0


@dataclass(slots=True)
class Captures:
    """One process's file."""

    pid: int
    kernels: dict[str, Kernel] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    torn: int = 0
    """Frames that were cut off."""
    damaged: int = 0
    """Frames with a bad header or contradictory content."""


def pids(folder: Folder) -> list[int]:
    """The processes that have a file."""
    names = [entry.name for entry in folder.entries()]
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if _NAME.fullmatch(name))


def read(folder: Folder, pid: int) -> Captures:
    """Reads a process's file. Its data is mapped, and read when it is used."""
    captures = Captures(pid)
    with folder.file(f"{pid}{SUFFIX}") as file:
        if file is None:
            return captures
        size = file.seek(0, 2)
        data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8) if size else np.zeros(0, np.uint8)
    for head, raw in _frames(data, captures):
        _add(captures, head, raw)
    return captures


def _frames(data: Bytes, captures: Captures) -> Iterator[tuple[dict[str, Any], Bytes]]:
    at = 0
    while at < len(data):
        if len(data) - at < HEAD.size:
            captures.torn += 1
            return
        magic, version, json_bytes, data_bytes = HEAD.unpack(data[at : at + HEAD.size].tobytes())
        if magic != MAGIC or version != VERSION or json_bytes > _LARGEST_JSON:
            captures.damaged += 1
            if (at := _next(data, at + 1)) < 0:
                return
            continue
        begin = at + HEAD.size + json_bytes
        end = begin + data_bytes
        if end > len(data):
            # The frame is cut off; or its size is damaged, if another frame follows.
            following = _next(data, at + 1)
            captures.torn, captures.damaged = captures.torn + (following < 0), captures.damaged + (following >= 0)
            if following < 0:
                return
            at = following
            continue
        try:
            head = parse(data[at + HEAD.size : begin].tobytes(), most_values=_MOST_VALUES)
        except ValueError:
            head = None
        if isinstance(head, dict):
            yield head, data[begin:end]
        else:
            captures.damaged += 1
        at = _after(data, end, data_bytes)


def _after(data: Bytes, end: int, data_bytes: int) -> int:
    """The beginning of the next frame, behind the padding."""
    return min(end + -data_bytes % 8, len(data))


def _next(data: Bytes, begin: int) -> int:
    """The next place where a frame may begin, -1: none."""
    step = 1 << 24
    for at in range(begin, len(data), step):
        if (place := data[at : at + step + len(MAGIC) - 1].tobytes().find(MAGIC)) >= 0:
            return at + place
    return -1


def _add(captures: Captures, head: dict[str, Any], raw: Bytes) -> None:
    try:
        if head.get("kind") == "kernel":
            kernel = _kernel(head)
            captures.kernels.setdefault(kernel.key, kernel)
        elif head.get("kind") == "launch":
            launch = _launch(head, raw)
            kernel = captures.kernels[launch.key]
            whole = len(raw) // kernel.scratch_bytes
            if (launch.ctas <= whole or len(raw) != launch.ring_bytes) if launch.overwrote_ctas else launch.ctas != whole:
                raise ValueError("the size of the data does not fit the number of CTAs")
            captures.launches.append(launch)
        # Other kinds of frames, from a newer aiflame, are ignored.
    except (KeyError, ValueError, TypeError, OverflowError):
        captures.damaged += 1


def _kernel(fields: dict[str, Any]) -> Kernel:
    warps = _number(fields["num_warps"], 1, 64)
    ids = fields.get("warp_ids")
    recorded = tuple(range(warps)) if ids is None else tuple(sorted({_number(one, 0, warps - 1) for one in ids}))
    scopes = {scope.number: scope for scope in map(_scope, fields["scopes"])}
    if not recorded:
        raise ValueError("no warp records")
    return Kernel(
        key=_text(fields["key"]),
        name=_text(fields["name"]),
        file=_text(fields.get("file")),
        line=_number(fields.get("line"), 0, 1 << 31, 0),
        warps=warps,
        recorded=recorded,
        scratch_bytes=_number(fields["scratch_bytes"], 64, 1 << 30),
        clock_bits=43 if fields.get("clock64", True) else 32,
        triton=_text(fields.get("triton")),
        arch=_text(fields.get("arch")),
        record_cycles=_amount(fields.get("record_cycles")),
        scopes=tuple(scopes[number] for number in sorted(scopes)),
        plain=_build(fields.get("plain")),
        instrumented=_build(fields.get("instrumented")),
        scopes_left_out=_number(fields.get("left_out"), 0, 1 << 30, 0),
    )


def _scope(fields: dict[str, Any]) -> Scope:
    number = _number(fields["id"], 0, MOST_SCOPES - 1)
    kind, phase = _text(fields.get("kind")), _text(fields.get("phase"))
    return Scope(
        number=number,
        name=_text(fields.get("name")) or f"scope {number}",
        of_pass=_text(fields.get("pass")),
        kind=kind if kind in _KINDS else "user",
        op=_text(fields.get("op")),
        file=_text(fields.get("file")),
        line=_number(fields.get("line"), 0, 1 << 31, 0),
        loop=_number(fields.get("loop"), -1, 1 << 30, -1),
        phase=phase if phase in _PHASES else "span",
        pair=_number(fields.get("pair"), -1, MOST_SCOPES - 1, -1),
    )


def _build(fields: Any) -> Build:
    if not isinstance(fields, dict):
        return Build()
    return Build(*(_number(fields.get(name), -1, 1 << 40, -1) for name in ("registers", "shared", "spills", "ns")))


def _launch(fields: dict[str, Any], raw: Bytes) -> Launch:
    x, y, z = (*fields["grid"], 1, 1, 1)[:3]
    return Launch(
        key=_text(fields["key"]),
        device=_number(fields.get("device"), 0, 1 << 16, 0),
        stream=_number(fields.get("stream"), 0, (1 << 64) - 1, 0),
        grid=(_number(x, 1, 1 << 31), _number(y, 1, 1 << 31), _number(z, 1, 1 << 31)),
        correlation=_number(fields.get("correlation"), 0, (1 << 64) - 1, 0),
        begin_ns=_number(fields.get("begin_ns"), 0, 1 << 62, 0),
        first_cta=_number(fields.get("first_cta"), 0, 1 << 40, 0),
        ctas=_number(fields["ctas"], 0, 1 << 31),
        number=_number(fields.get("launch"), 0, 1 << 62, 0),
        dropped_launches=_number(fields.get("dropped_launches"), 0, 1 << 62, 0),
        ring_bytes=_number(fields.get("ring_bytes"), 0, 1 << 40, 0) // 4 * 4,
        data=raw,
    )


def _number(value: Any, least: int, most: int, missing: int | None = None) -> int:
    if value is None and missing is not None:
        return missing
    number = int(value)
    if not least <= number <= most:
        raise ValueError(f"{number} is out of bounds")
    return number


def _amount(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e4 else -1.0


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""
