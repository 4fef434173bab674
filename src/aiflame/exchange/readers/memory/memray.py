"""memray's capture files (`memray run -o FILE.bin`), read by memray itself in a process with limits, and its tables in CSV."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.memory.kinds import ALLOCATED, ALLOCATIONS, END, KINDS, PEAK
from aiflame.exchange.readers.sampled.samples import DEEPEST, Sampled, native_kind
from aiflame.exchange.readers.source import Source

_MAGIC = b"memray\0"
_LZ4 = b"\x04\x22\x4d\x18"
_SECONDS = 400
_CHILD = Path(__file__).with_name("memray_child.py")
_INTERPRETER_LINE = re.compile(rb"#!\s*(/\S*python[\d.]*)\s*$", re.MULTILINE)
_PYTHON = (".py", ".pyx", ".pyw")
_CSV_HEAD = b"allocator,num_allocations,size,tid,thread_name,stack_trace"
_MOST_CSV = 256 << 20
_MOST_BYTES = 1 << 50


def is_one(head: bytes) -> bool:
    """The file's header is the begin of an LZ4 frame, or the begin of the file where that is not packed."""
    return head.startswith((_MAGIC, _CSV_HEAD)) or (head.startswith(_LZ4) and _MAGIC in head[:64])


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    reading = _Reading(making)
    if source.head.startswith(_CSV_HEAD):
        reading.table(source)
    else:
        reading.capture(source)
    reading.rows.finish()
    making.last_ns = max(making.last_ns, FIRST_NS + reading.lasted_ns)


class _Reading:
    def __init__(self, making: Making) -> None:
        self.making = making
        self.rows = Sampled(making)
        self.pid = 0
        self.lasted_ns = 0

    def capture(self, source: Source) -> None:
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
            status = _run(_python(), source, answer, errors)
            version = ""
            for number, line in enumerate(answer):
                try:
                    row = json.loads(line)
                except ValueError:  # the process was ended within a line
                    break
                version = row.get("version", version)
                if "error" in row:
                    raise AiflameError(_refused(source, version, row["error"]))
                try:
                    self._line(row, number)
                except (KeyError, TypeError, ValueError, OverflowError):
                    raise AiflameError(f"memray {version} gave a damaged answer for {source.path}") from None
            if status:
                ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                raise AiflameError(f"memray {version} {ended} when it read {source.path}: the file is damaged or too large for its limits")

    def table(self, source: Source) -> None:
        """`memray transform csv` writes the peak, or the leaks with `--leaks`: which of them is not in the file."""
        kinds = [self.rows.kind("size", "bytes", "bytes of memray's table"), self.rows.kind("allocations", "allocations", "allocations")]
        self.making.note("the table does not say whether it has memory at the peak or memory that was never freed (--leaks)")
        text = source.whole(_MOST_CSV).decode("utf-8", "replace").replace("\0", "\ufffd")
        csv.field_size_limit(16 << 20)
        odd = 0
        process = self.rows.process()
        try:
            for row in csv.DictReader(text.splitlines()):
                numbers = [row.get(name) or "" for name in ("size", "num_allocations", "tid")]
                stack = row.get("stack_trace")
                if stack is None or not all(one.isascii() and one.isdecimal() and len(one) < 16 for one in numbers):
                    odd += 1
                    continue
                size, count, tid = map(int, numbers)
                call = self._call(process, [_in_table(frame) for frame in stack.split("|") if frame])
                thread = self.rows.thread(process, tid, row.get("thread_name") or "")
                for kind, value in zip(kinds, (size, count), strict=True):
                    self.rows.value(process, thread, call, kind, value)
        except csv.Error as error:
            raise AiflameError(f"{source.path} is no whole table of memray: {error}") from None
        if odd:
            self.making.note(f"{odd:,} lines of the table are damaged: they are left out")

    def _line(self, row: dict[str, Any], number: int) -> None:
        if "note" in row:
            self.making.note(row["note"])
        elif "pid" in row:
            self.pid = row["pid"]
            self.making.command = tuple(str(row["command"]).split())
            began, ended = int(row["began"] * 1e9), int(row["ended"] * 1e9)
            self.making.realtime_ns = began if began > 0 else 0
            self.lasted_ns = ended - began if 0 < ended - began < 1 << 59 else 0
        elif "kind" in row:
            for kind in KINDS:
                self.rows.kind(*kind)
            process = self.rows.process(self.pid)
            thread = self.rows.thread(process, row["tid"], str(row["thread"]))
            call = self._call(process, row["stack"])
            size, count = min(row["size"], _MOST_BYTES), min(row["count"], _MOST_BYTES)
            if row["kind"] == "all":
                self.rows.value(process, thread, call, ALLOCATED, size)
                self.rows.value(process, thread, call, ALLOCATIONS, count)
            else:
                self.rows.value(process, thread, call, PEAK if row["kind"] == "peak" else END, size)

    def _call(self, process: int, stack: list[Any]) -> int:
        """`stack`: function, file and line of each frame, the innermost first."""
        call = -1
        for function, file, line in reversed(stack[:DEEPEST]):
            call = self.rows.call(process, call, _frame(str(function), str(file), str(line)))
        return call


def _frame(function: str, file: str, line: str) -> AnyFrame:
    number = int(line) if line.isascii() and line.isdecimal() and len(line) < 10 else 0
    if file.endswith(_PYTHON) or (file.startswith("<") and file.endswith(">")):
        return PythonFrame(function or "[unknown]", file, 0, number)
    return NamedFrame(function or "[unknown]", native_kind(function), "", file, number)


def _in_table(frame: str) -> tuple[str, str, str]:
    """`function;file;line`"""
    function, _, place = frame.partition(";")
    file, _, line = place.rpartition(";")
    return function, file, line


def _python() -> str:
    """The Python that memray is installed for: ours, or that of the `memray` on the PATH."""
    if importlib.util.find_spec("memray") is not None:
        return sys.executable
    command = shutil.which("memray")
    if command is not None:
        with Path(command).open("rb") as script:
            first = _INTERPRETER_LINE.match(script.readline(4096))
        if first is not None:
            return os.fsdecode(first[1])
    raise AiflameError("memray's files are read by memray itself: `pip install memray`")


def _run(python: str, source: Source, answer: IO[bytes], errors: IO[bytes]) -> int:
    """The exit status of the process that reads a capture file, once it has written everything into `answer`."""
    # If we run inside a recorded program, our child processes must not be recorded.
    variables = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "AIFLAME_PROFILE")}
    try:
        process = subprocess.run(
            [python, "-I", str(_CHILD), str(source.path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=errors,
            env=variables,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AiflameError(f"memray did not read {source.path} within {_SECONDS} seconds") from None
    except OSError as error:
        raise AiflameError(f"cannot start {python}, which memray is installed for: {error.strerror or error}") from None
    answer.seek(0)
    return process.returncode


def _refused(source: Source, version: str, error: str) -> str:
    if "incompatible with this version" in error:
        at = source.head.find(_MAGIC) + len(_MAGIC)
        written = int.from_bytes(source.head[at : at + 4], "little")
        return (
            f"memray {version} cannot read {source.path}, which another version of memray wrote (its format is {written}): "
            "install that version, or write a table with its `memray transform csv`"
        )
    if error.startswith("MemoryError"):
        return f"memray {version} needs more than 2 GB to read {source.path}"
    return f"memray {version} cannot read {source.path}: {' '.join(error.partition(': ')[2].split())}"
