"""The text of `perf script`: a line for each sample, then its stack, innermost frame first, then an empty line.

    comm 4711/4712 [003] 1234.567890:   10101010 cpu-clock:
                11d6 spin+0x5d (/home/me/work)

Each `perf script` chooses its fields. A sample of a clock with a period is CPU time; other events are metrics of their own, by their
periods, or by the number of samples where no period was printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import PurePath

from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.perf_rows import PerfRows, is_idle
from aiflame.exchange.readers.sampled.samples import DEEPEST, NO_TIME, native_kind
from aiflame.exchange.readers.sampled.text_lines import as_utf8, lines
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind
from aiflame.values import replace

_OWNER = rb"^[ \t]*(?P<comm>\S.*?)\s+(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[(?P<cpu>\d{1,6})\]\s+)?"
_EVENT = rb"(?:(?P<period>\d{1,19})\s+)?(?P<event>[^\s\d]\S*):(?:\s+(?P<rest>\S.*))?\s*$"
_TIMED = re.compile(_OWNER + rb"(?:[.a-zA-Z][.\w]{3,5}\s+)?(?P<seconds>\d{1,10})\.(?P<fraction>\d{1,9}):\s*" + _EVENT)
_UNTIMED = re.compile(_OWNER + _EVENT)
_NAMED_ALONE = re.compile(rb"^(?P<comm>[^\s:][^:]*?)\s+" + _EVENT)
_FRAME = re.compile(rb"^\s*(?P<address>[0-9a-fA-F]{1,16})\s+(?P<symbol>\S.*)$")
_PLACE = re.compile(rb"^\s+(?P<file>[^\s()][^()]*):(?P<line>\d{1,9})(?: \(discriminator \d+\))?\s*$")
_OFFSET = re.compile(r"\+0x[\da-f]+$")
_JIT_FILE = re.compile(r"(^|/)(perf-\d+\.map|jitted-\d+-\d+\.so|jit-\d+\.dump)$")
_KERNEL_FILE = re.compile(r"^\[(guest\.)?kernel|(^|/)vmlinux|\.ko(\.\w+)?$|^\[[\w-]+\]$")
_USER_BRACKETS = ("[vdso]", "[vsyscall]", "[unknown]", "[heap]", "[stack]", "[anon]", "[uprobes]")
_JAVA = re.compile(r"^L([^;()]+);(.*)$")
_PYTHON = re.compile(r"^py::(?P<function>.*):(?P<file>[^:]+)$")
_RECORD = b" PERF_RECORD_"
_HEADER = re.compile(rb"^# (hostname|os release|nrcpus online|cpudesc|cmdline) : (.*)$")
_LOOKED_AT = 400


def is_one(head: bytes) -> bool:
    """Its first line is that of a sample, and the line behind it that of a frame, or empty."""
    begun = False
    for line in islice(as_utf8(head).splitlines(), _LOOKED_AT):
        if not line.strip() or line.startswith(b"#") or _RECORD in line:
            if begun and not line.strip():
                return True
            continue
        if begun:
            return bool(_FRAME.match(line) or _TIMED.match(line))
        sample = _sample(line)
        if sample is None:
            return False
        begun = True
        if sample["rest"] is not None:
            return bool(_TIMED.match(line))
    return begun


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    reading = _Reading(making)
    for _, line in lines(source, progress):
        reading.line(line)
    reading.finish()


def _sample(line: bytes) -> re.Match[bytes] | None:
    sample = _TIMED.match(line) if b"." in line else None
    if sample is None and line.rstrip().endswith(b":"):
        sample = _UNTIMED.match(line) or _NAMED_ALONE.match(line)
    return sample


class _Reading:
    def __init__(self, making: Making) -> None:
        self.making = making
        self.perf = PerfRows(making)
        self.rows = self.perf.rows
        self._open: re.Match[bytes] | None = None
        self._stack: list[bytes] = []
        self._known: set[bytes] = set()
        """Lines that are frames."""
        self._calls: dict[tuple[int, tuple[bytes, ...]], int] = {}
        self._strange = self._cut = 0

    def line(self, line: bytes) -> None:
        if self._open is not None and line in self._known:
            self._stack.append(line)
        elif not line.strip():
            self._close()
        elif line.startswith(b"#"):
            self._header(line)
        elif _RECORD in line:
            self._close()
            self.making.unused["records of perf that are no samples"] += 1
        elif (sample := _sample(line)) is not None:
            self._close()
            self._open = sample
            if sample.re is not _NAMED_ALONE and sample["rest"] is not None and _FRAME.match(sample["rest"]):
                self._stack.append(b" " + sample["rest"])
        elif self._open is None:
            self._strange += 1
        elif _FRAME.match(line):
            self._known.add(line)
            self._stack.append(line)
        elif self._stack and _PLACE.match(line):
            self._stack[-1] += b"\0" + line.strip()
        else:
            self._strange += 1

    def finish(self) -> None:
        self._close()
        note = self.making.note
        if self._strange:
            note(f"{self._strange:,} lines of the file are neither samples nor frames: they are left out")
        if self._cut:
            note(f"{self._cut:,} stacks of more than {DEEPEST:,} frames are cut at their outer end")
        self.perf.finish()

    def _close(self) -> None:
        """Adds the sample that is open."""
        sample, stack = self._open, self._stack
        if sample is None:
            return
        self._open, self._stack = None, []
        if len(stack) > DEEPEST:
            self._cut += 1
            del stack[DEEPEST:]
        fields = sample.groupdict()
        process, thread = self._owner(fields)
        call = self._call(process, stack)
        at = NO_TIME
        if fields.get("seconds") is not None:
            at = int(fields["seconds"]) * 10**9 + int(fields["fraction"].ljust(9, b"0"))
        period = None if fields["period"] is None else int(fields["period"])
        idle = is_idle(fields["comm"].decode("utf-8", "replace"), int(fields.get("tid") or fields.get("pid") or 1))
        self.perf.add(process, thread, call, fields["event"].decode("utf-8", "replace"), period, at, idle=idle)

    def _owner(self, fields: dict[str, bytes]) -> tuple[int, int]:
        """Process and thread. One number alone is that of the thread; then threads of one name count as one process."""
        comm = fields["comm"].decode("utf-8", "replace")
        first, second = fields.get("pid"), fields.get("tid")
        if first is None or second is None:
            process = self.rows.process(0, comm)
            return process, self.rows.thread(process, max(int(first or 0), 0), comm) if first is not None else 0
        return self.perf.owner(comm, int(first), int(second))

    def _call(self, process: int, stack: list[bytes]) -> int:
        key = process, tuple(stack)
        call = self._calls.get(key)
        if call is None:
            call = -1
            for line in reversed(stack):
                for frame in _frames(line):
                    call = self.rows.call(process, call, frame)
            self._calls[key] = call
        return call

    def _header(self, line: bytes) -> None:
        fact = _HEADER.match(line)
        if fact is None:
            return
        making, value = self.making, fact[2].decode("utf-8", "replace").strip()
        if fact[1] == b"cmdline":
            making.command = tuple(value.split())
        elif fact[1] == b"nrcpus online":
            making.host = replace(making.host, cores=int(value) if value.isdecimal() and len(value) < 7 else 0)
        else:
            host, of = making.host, fact[1]
            own = {b"hostname": replace(host, name=value), b"os release": replace(host, kernel=value), b"cpudesc": replace(host, cpu=value)}
            making.host = own[of]


@lru_cache(1 << 18)
def _frames(line: bytes) -> tuple[AnyFrame, ...]:
    """The frames of a line, outermost first: Java's maps have inlined functions behind their callers, `outer->inner`."""
    address, symbol = (part.decode("utf-8", "replace") for part in line.split(None, 1))
    symbol, _, place = symbol.partition("\0")
    symbol, file = _file_of(symbol.strip())
    symbol = _OFFSET.sub("", symbol)
    if symbol.startswith("("):
        return ()  # the name of a process
    jit = bool(_JIT_FILE.search(file))
    inlined = file == "inlined"
    high = len(address) == 16 and address.lower().startswith("ffff")
    kernel = not jit and file not in _USER_BRACKETS and (high or bool(_KERNEL_FILE.search(file)))
    module = "" if inlined or file in ("", "[unknown]") else "[JIT]" if jit else PurePath(file).name
    if symbol == "[unknown]":
        name = symbol if not module else module if module.startswith("[") else f"[{module}]"
        return (NamedFrame(name, Kind.OS_KERNEL if kernel or (high and not module) else Kind.C, module),)
    if (python := python_frame(symbol)) is not None:
        return (python,)
    source, _, number = place.partition(" (discriminator")[0].rpartition(":")
    names = [_JAVA.sub(r"\1\2", name) for name in symbol.split("->") if name] if jit else [symbol]
    return tuple(
        NamedFrame(name, Kind.OS_KERNEL if kernel else native_kind(name), module, source, int(number) if number.isdecimal() else 0)
        for name in names
    )


def python_frame(symbol: str) -> PythonFrame | None:
    """The function of Python that a symbol of its perf map names, `py::function:file`."""
    python = _PYTHON.match(symbol)
    return PythonFrame(python["function"], python["file"], 0) if python is not None else None


def _file_of(text: str) -> tuple[str, str]:
    """Symbol and file of `symbol (file)`."""
    if not text.endswith(")"):
        return text, ""
    whole = text.removesuffix(" (deleted))") + ")" if text.endswith(" (deleted))") else text
    symbol, begin, file = whole.rpartition(" (")
    return (symbol.rstrip(), file[:-1]) if begin else (text, "")
