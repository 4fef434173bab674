"""Files of captures: records from inside compiled kernels, as the device wrote them.

`PROFILE/intra/PID.captures` is a sequence of frames: magic, version, sizes, a JSON text, bytes. A frame is of a kernel (which scopes it has
and how its memory is laid out) or of one launch (the memory itself). The program writes the file while it runs and may be killed at any
moment: a frame that is cut off, or no frame at all, costs itself.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.json_data import parse

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
"""Of the JSON of a frame: some dozen for each scope."""
_LONGEST = 4096
"""Letters of a name."""
_KINDS = ("load", "mma", "barrier", "wait", "store", "loop", "region", "role", "user", "async")
_PHASES = ("span", "issue", "wait")

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in a kernel whose time was taken."""

    number: int
    name: str
    of_pass: str
    kind: str
    """load, mma, barrier, wait, store, loop, region, role, user or async"""
    op: str
    file: str
    line: int
    loop: int
    """The loop that it lies in, -1: none."""
    phase: str
    """`issue`: something is started here that goes on, `wait`: it is waited for here, `span`: all of it lies between begin and end"""
    pair: int
    """Of a wait: the scope that issued the awaited work; -1: none or not known."""


@dataclass(frozen=True, slots=True)
class Build:
    """The resources of a compiled kernel; -1: not known."""

    registers: int = -1
    shared: int = -1
    spills: int = -1
    ns: int = -1
    """How long a launch takes, where that was measured."""


@dataclass(frozen=True, slots=True)
class Kernel:
    key: str
    name: str
    file: str
    line: int
    warps: int
    """Of a CTA, those of warp specialization included."""
    recorded: tuple[int, ...]
    """The warps that record."""
    scratch_bytes: int
    """Of a CTA."""
    clock_bits: int
    triton: str
    arch: str
    record_cycles: float
    """The calibrated cost of a record; -1: not calibrated."""
    scopes: tuple[Scope, ...]
    plain: Build
    instrumented: Build
    scopes_left_out: int = 0
    """More than its records can distinguish."""


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
    """How many launches of this kernel there were before and with it."""
    dropped_launches: int
    ring_bytes: int
    """Of memory that CTAs went round in (`cta_ring`), 0: each had a place of its own."""
    data: Bytes
    """`ctas` times the kernel's scratch; or, where these are more, the ring that they went round in."""

    @property
    def went_round(self) -> bool:
        """Only the last CTAs are left."""
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
    """Frames that are none, or contradict themselves."""


def pids(folder: Folder) -> list[int]:
    """The processes that have a file."""
    names = [entry.name for entry in folder.entries()]
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if _NAME.fullmatch(name))


def read(folder: Folder, pid: int) -> Captures:
    """The data stays in the file until it is looked at."""
    found = Captures(pid)
    with folder.file(f"{pid}{SUFFIX}") as file:
        if file is None:
            return found
        size = file.seek(0, 2)
        data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8) if size else np.zeros(0, np.uint8)
    for told, raw in _frames(data, found):
        _take(found, told, raw)
    return found


def _frames(data: Bytes, found: Captures) -> Iterator[tuple[dict[str, Any], Bytes]]:
    at = 0
    while at < len(data):
        if len(data) - at < HEAD.size:
            found.torn += 1
            return
        magic, version, json_bytes, data_bytes = HEAD.unpack(data[at : at + HEAD.size].tobytes())
        if magic != MAGIC or version != VERSION or json_bytes > _LARGEST_JSON:
            found.damaged += 1
            if (at := _next(data, at + 1)) < 0:
                return
            continue
        begin = at + HEAD.size + json_bytes
        end = begin + data_bytes
        if end > len(data):
            # Cut off, unless it is its size that is damaged and others follow.
            following = _next(data, at + 1)
            found.torn, found.damaged = found.torn + (following < 0), found.damaged + (following >= 0)
            if following < 0:
                return
            at = following
            continue
        try:
            told = parse(data[at + HEAD.size : begin].tobytes(), most_values=_MOST_VALUES)
        except ValueError:
            told = None
        if isinstance(told, dict):
            yield told, data[begin:end]
        else:
            found.damaged += 1
        at = _after(data, end, data_bytes)


def _after(data: Bytes, end: int, data_bytes: int) -> int:
    """Where the next frame begins: behind the padding."""
    return min(end + -data_bytes % 8, len(data))


def _next(data: Bytes, begin: int) -> int:
    """The next place that a frame may begin at, -1: none."""
    step = 1 << 24
    for at in range(begin, len(data), step):
        if (place := data[at : at + step + len(MAGIC) - 1].tobytes().find(MAGIC)) >= 0:
            return at + place
    return -1


def _take(found: Captures, told: dict[str, Any], raw: Bytes) -> None:
    try:
        if told.get("kind") == "kernel":
            kernel = _kernel(told)
            found.kernels.setdefault(kernel.key, kernel)
        elif told.get("kind") == "launch":
            launch = _launch(told, raw)
            kernel = found.kernels[launch.key]
            whole = len(raw) // kernel.scratch_bytes
            if (launch.ctas <= whole or len(raw) != launch.ring_bytes) if launch.went_round else launch.ctas != whole:
                raise ValueError("the data is not of so many CTAs")
            found.launches.append(launch)
        # Additional data of a newer aiflame is ignored.
    except (KeyError, ValueError, TypeError, OverflowError):
        found.damaged += 1


def _kernel(told: dict[str, Any]) -> Kernel:
    warps = _number(told["num_warps"], 1, 64)
    ids = told.get("warp_ids")
    recorded = tuple(range(warps)) if ids is None else tuple(sorted({_number(one, 0, warps - 1) for one in ids}))
    scopes = {scope.number: scope for scope in map(_scope, told["scopes"])}
    if not recorded:
        raise ValueError("no warp records")
    return Kernel(
        key=_text(told["key"]),
        name=_text(told["name"]),
        file=_text(told.get("file")),
        line=_number(told.get("line"), 0, 1 << 31, 0),
        warps=warps,
        recorded=recorded,
        scratch_bytes=_number(told["scratch_bytes"], 64, 1 << 30),
        clock_bits=43 if told.get("clock64", True) else 32,
        triton=_text(told.get("triton")),
        arch=_text(told.get("arch")),
        record_cycles=_amount(told.get("record_cycles")),
        scopes=tuple(scopes[number] for number in sorted(scopes)),
        plain=_build(told.get("plain")),
        instrumented=_build(told.get("instrumented")),
        scopes_left_out=_number(told.get("left_out"), 0, 1 << 30, 0),
    )


def _scope(told: dict[str, Any]) -> Scope:
    number = _number(told["id"], 0, MOST_SCOPES - 1)
    kind, phase = _text(told.get("kind")), _text(told.get("phase"))
    return Scope(
        number=number,
        name=_text(told.get("name")) or f"scope {number}",
        of_pass=_text(told.get("pass")),
        kind=kind if kind in _KINDS else "user",
        op=_text(told.get("op")),
        file=_text(told.get("file")),
        line=_number(told.get("line"), 0, 1 << 31, 0),
        loop=_number(told.get("loop"), -1, 1 << 30, -1),
        phase=phase if phase in _PHASES else "span",
        pair=_number(told.get("pair"), -1, MOST_SCOPES - 1, -1),
    )


def _build(told: Any) -> Build:
    if not isinstance(told, dict):
        return Build()
    return Build(*(_number(told.get(name), -1, 1 << 40, -1) for name in ("registers", "shared", "spills", "ns")))


def _launch(told: dict[str, Any], raw: Bytes) -> Launch:
    x, y, z = (*told["grid"], 1, 1, 1)[:3]
    return Launch(
        key=_text(told["key"]),
        device=_number(told.get("device"), 0, 1 << 16, 0),
        stream=_number(told.get("stream"), 0, (1 << 64) - 1, 0),
        grid=(_number(x, 1, 1 << 31), _number(y, 1, 1 << 31), _number(z, 1, 1 << 31)),
        correlation=_number(told.get("correlation"), 0, (1 << 64) - 1, 0),
        begin_ns=_number(told.get("begin_ns"), 0, 1 << 62, 0),
        first_cta=_number(told.get("first_cta"), 0, 1 << 40, 0),
        ctas=_number(told["ctas"], 0, 1 << 31),
        number=_number(told.get("launch"), 0, 1 << 62, 0),
        dropped_launches=_number(told.get("dropped_launches"), 0, 1 << 62, 0),
        ring_bytes=_number(told.get("ring_bytes"), 0, 1 << 40, 0) // 4 * 4,
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
