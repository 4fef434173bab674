"""Collapsed stacks: `outer;inner;innermost 42`, one line a stack, as flamegraph.pl, inferno, py-spy, austin and aiflame itself write them.

A second number is the count of the run that is looked at, beside that of the run before (`difffolded.pl`). Names have marks of
`flamegraph.pl` and of `exchange.writers.collapsed`; py-spy adds `(file:line)`, and austin writes `file:function:line`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import DEEPEST, Sampled, native_kind, number_of
from aiflame.exchange.readers.sampled.text_lines import as_utf8, lines
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import MARKS, PYTHON_MARK, Kind

_OURS = ("[unattributed", "[… ")
_COPIES = ("[copy", "[fill]", "[map]")
_GRAPH_REPLAY = "[graph replay]"
_GPU_IDLE = ("[GPU idle]", "[GPU idle energy]", "[nothing of this program]")
_WAITS = ("[GIL]", "[lock]", "[I/O]", "[sleep]", "[waiting]")
_SOURCE_LINE = re.compile(r"\.\w+:\d+$")
_CPU_INSTRUCTION = re.compile(r" @ \+0x[0-9a-f]+$")
_OFFSET = re.compile(r"^\+0x[0-9a-f]+$")
_STALL = re.compile(r"^[a-z][a-z0-9_]+$")
_PLACED = re.compile(r"^(?P<name>.+) \((?P<file>[^()]+?)(:(?P<line>\d{1,9}))?\)$")
_PYTHON_FILE = re.compile(r"(\.pyx?|\.pyw|^<.*>)$")
_LIBRARY = re.compile(r"(\.so[.\d]*|\.dylib|\.dll|\.exe|\.pyd)$")
_PROCESS = re.compile(rb'^process (\d{1,10}):"(.*)"$')
_THREAD = re.compile(rb"^thread \((0x[0-9A-Fa-f]{1,16}|\d{1,20})\)(?:: (.*))?$")
_FOREIGN_MARKS = re.compile(r"_\[(?:i|j)\]$")
"""flamegraph.pl's marks for compiled and inlined functions."""
_NUMBER = rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_LINE = re.compile(rb"^(?=.*\S)[^\x00]*\S[ \t]+" + _NUMBER + rb"\s*$")
_TWO = re.compile(rb"^(.*\S)[ \t]+(" + _NUMBER + rb")[ \t]+(" + _NUMBER + rb")\s*$")
_LOOKED_AT = 200
"""Lines by which a file is recognized."""


def is_one(head: bytes) -> bool:
    """By its first line: it has no mark of its own. No line is no stack."""
    text = as_utf8(head)
    if b"\0" in text:
        return False
    first = next(iter(_stacks_of(text)), b"")
    return not head or bool(_LINE.match(first)) or (b";" in first and b" " in first and not first.lstrip().startswith((b"{", b"[", b"<")))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    head = list(islice(_stacks_of(as_utf8(source.head)), _LOOKED_AT))
    two = bool(head) and all(_TWO.match(line) for line in head)
    rows = Sampled(making)
    now = rows.kind("samples", "samples", "samples now" if two else "samples")
    before = rows.kind("samples-before", "samples", "samples before") if two else now
    stacks: dict[bytes, tuple[int, int, int]] = {}
    for number, line in lines(source, progress):
        if two and line.strip() and not line.startswith(b"#"):
            parts = _TWO.match(line)
            if parts is None:
                raise AiflameError(f"{source.path}, line {number}: has one count where other lines have two (`outer;inner 42 43`)")
            stack, *counts = parts.groups()
        else:
            stack, _, last = line.rstrip().rpartition(b" ")
            stack, counts = stack.rstrip(), [last]
            if not stack:
                if not line.strip() or line.startswith(b"#"):
                    continue
                raise AiflameError(f"{source.path}, line {number}: not a collapsed stack (`outer;inner 42`)")
            if line.startswith(b"#") and not _LINE.match(line):
                continue
        place = stacks.get(stack)
        if place is None:
            place = stacks[stack] = _placed(rows, stack)
        process, thread, call = place
        for kind, count in zip((before, now) if two else (now,), counts, strict=True):
            rows.value(process, thread, call, kind, _whole(count, source, number))
    rows.finish()


def _stacks_of(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith(b"#")]


def _placed(rows: Sampled, stack: bytes) -> tuple[int, int, int]:
    """Process, thread and innermost call; py-spy writes the first two as frames."""
    names = stack.split(b";", DEEPEST)
    pid, program = 0, ""
    tid, thread_name = 0, ""
    if owner := _PROCESS.match(names[0]):
        pid, program = int(owner[1]), "\0".join(owner[2].decode("utf-8", "replace").split())
        names = names[1:]
    if names and (owner := _THREAD.match(names[0])):
        tid, thread_name = number_of(owner[1]), (owner[2] or b"").decode("utf-8", "replace")
        names = names[1:]
    process = rows.process(pid, program)
    thread = rows.thread(process, tid, thread_name)
    call = -1
    for name in names:
        call = rows.call(process, call, frame_of(name))
    return process, thread, call


def _whole(count: bytes, source: Source, number: int) -> int:
    try:
        value = int(count) if len(count) < 20 else float(count)
    except ValueError:
        try:
            value = float(count)
        except ValueError:
            value = float("nan")
    if not abs(value) < 2**63:
        raise AiflameError(
            f"{source.path}, line {number}: ends with {count.decode(errors='replace')!r}, not with a count (`outer;inner 42`)"
        )
    return round(value)


@lru_cache(1 << 16)
def frame_of(written: bytes) -> AnyFrame:
    """The frame, with its kind from its marks."""
    name = written.decode("utf-8", "replace")
    if name in ("-", _GRAPH_REPLAY):
        return NamedFrame(name, Kind.BOUNDARY)
    if name in _GPU_IDLE:
        return NamedFrame(name, Kind.GPU_IDLE)
    if name.startswith(PYTHON_MARK):
        return NamedFrame(name[len(PYTHON_MARK) :], Kind.PYTHON)
    if _FOREIGN_MARKS.search(name):
        return frame_of(written[:-4])
    if name.startswith("[") and name[-4:] not in MARKS.values():
        wait = name in _WAITS or name.endswith(" wait]")
        return NamedFrame(name, Kind.WAIT if wait else Kind.UNATTRIBUTED if name.startswith(_OURS) else Kind.C)
    bare, mark = name[:-4], name[-4:]
    if mark == "_[k]":
        return NamedFrame(bare, Kind.OS_KERNEL)
    if mark == "_[G]":
        copy = bare.startswith(_COPIES)
        return NamedFrame(bare, Kind.GPU_COPY if copy else Kind.GPU_LINE if _SOURCE_LINE.search(bare) else Kind.GPU_KERNEL)
    if mark == "_[g]":
        cpu = _CPU_INSTRUCTION.search(bare)
        gpu = Kind.GPU_OFFSET if _OFFSET.search(bare) else Kind.GPU_STALL if _STALL.search(bare) else Kind.GPU_INSTRUCTION
        return NamedFrame(bare, Kind.CPU_INSTRUCTION if cpu else gpu)
    if _SOURCE_LINE.search(name):
        return NamedFrame(name, Kind.CPU_LINE)
    return _placed_frame(name) or NamedFrame(name, native_kind(name))


def _placed_frame(name: str) -> AnyFrame | None:
    """`function (file:line)`, as py-spy writes it."""
    frame = _PLACED.match(name)
    if frame is None:
        return None
    file, line = frame["file"], int(frame["line"] or 0)
    if _PYTHON_FILE.search(file):
        return PythonFrame(frame["name"], file, 0, line)
    if _LIBRARY.search(file):
        return NamedFrame(frame["name"], native_kind(frame["name"]), module=file)
    return NamedFrame(frame["name"], native_kind(frame["name"]), file=file, line=line) if line and "." in file else None
