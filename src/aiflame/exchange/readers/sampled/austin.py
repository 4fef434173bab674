"""austin's text: `P42;T0:43;file:function:line;… 1234`, the time since the last sample in µs, or bytes that memory grew by.

`# mode: …` in front says which of them: wall-clock time, CPU time, memory, or all (`time,idle,bytes`). A sample has no moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import CPU, WALL, Sampled, number_of
from aiflame.exchange.readers.sampled.text_lines import as_utf8, lines
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind

_OWNER = re.compile(rb"^P(?P<pid>\d{1,10});T(?:\d{1,6}:)?(?P<tid>0x[0-9a-fA-F]{1,16}|\d{1,20})(?:;|$)")
_FRAME = re.compile(r"^(?P<file>.*):(?P<function>[^:]*):(?P<line>\d{1,9})$", re.DOTALL)
_NUMBERS = re.compile(rb"^(-?\d{1,18})(?:,([01]),(-?\d{1,18}))?$")
_OF_MODE = {"cpu": CPU, "wall": WALL}
_BYTES = "memory"


def is_one(head: bytes) -> bool:
    """Its frames have the function between file and line; other tools' stacks of `P1;T2` have not."""
    text = as_utf8(head).lstrip()
    if text.startswith(b"# austin:"):
        return True
    first = text.partition(b"\n")[0].rstrip()
    owner = _OWNER.match(first)
    frames = first[owner.end() :].rpartition(b" ")[0] if owner is not None else b""
    return bool(frames) and all(_FRAME.match(frame.decode("utf-8", "replace")) for frame in frames.split(b";"))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    rows, mode, seen = Sampled(making), "", False
    grew = -1
    stacks: dict[bytes, tuple[int, int, int]] = {}
    for number, line in lines(source, progress):
        if line.startswith(b"#"):
            name, _, given = line[1:].decode("utf-8", "replace").partition(":")
            if name.strip() == "mode":
                mode = given.strip()
            continue
        if not line.strip():
            continue
        stack, _, last = line.rstrip().rpartition(b" ")
        owner, numbers = _OWNER.match(stack), _NUMBERS.match(last)
        if owner is None or numbers is None:
            raise AiflameError(f"{source.path}, line {number}: not a sample of austin (`P42;T0:43;file:function:line 1234`)")
        if stack not in stacks:
            stacks[stack] = _placed(rows, owner, stack[owner.end() :])
        place = stacks[stack]
        if numbers[2] is not None:
            idle = numbers[2] == b"1"
            rows.time(*place, WALL, int(numbers[1]) * 1000, waits=idle)
            rows.time(*place, CPU, 0 if idle else int(numbers[1]) * 1000)
            seen = True
            grown = int(numbers[3])
        elif mode == "memory":
            grown = int(numbers[1])
        elif mode in ("", *_OF_MODE):
            rows.time(*place, _OF_MODE.get(mode, WALL), int(numbers[1]) * 1000)
            seen = True
            continue
        else:
            raise AiflameError(f"{source.path} was written in austin's mode {mode[:40]!r}, which is not known")
        if grown:
            grew = rows.kind(_BYTES, "bytes", "memory taken, less memory given back")
            rows.value(*place, grew, grown)
    if seen and not mode:
        making.note("the file does not say which time its samples have: it is taken for wall-clock time")
    if seen or grew >= 0:
        making.note("austin's samples have no moments: they are in no timeline")
    rows.finish()


def _placed(rows: Sampled, owner: re.Match[bytes], stack: bytes) -> tuple[int, int, int]:
    process = rows.process(int(owner["pid"]))
    thread = rows.thread(process, number_of(owner["tid"]))
    call = -1
    for name in stack.split(b";") if stack else ():
        call = rows.call(process, call, _frame(name.decode("utf-8", "replace")))
    return process, thread, call


def _frame(name: str) -> AnyFrame:
    frame = _FRAME.match(name)
    if frame is None:
        return NamedFrame(name, Kind.WAIT if name == ":GC:" else Kind.C)
    return PythonFrame(frame["function"], frame["file"], 0, int(frame["line"]))
