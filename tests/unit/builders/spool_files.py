"""Writes spool files as the collector does, from rows given in Python: the ground truth of the tests of reading."""

from __future__ import annotations

import struct
from pathlib import Path

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.all_tables import HEADER_BYTES, SPOOL_HEADER, SPOOL_MAGIC, TABLE, TABLES
from aiflame.profile.schema.control_schema import FORMAT, ControlState
from aiflame.profile.schema.records import COMMIT, Column, layout
from aiflame.profile.spool.check_words import check_word
from aiflame.profile.spool.strings import TABLE_NUMBER

FORMATS = {"u1": "B", "<u2": "H", "<u4": "I", "<u8": "Q", "<i4": "i", "<i8": "q"}


class ProcessFiles:
    """One process's tables in memory; `write` puts them on disk."""

    def __init__(self, pid: int = 100, start_ns: int = 1_000, **process: int | str | bytes) -> None:
        self.pid, self.start_ns = pid, start_ns
        self.records: dict[str, list[bytes]] = {}
        self.stream = b""
        self.format = FORMAT
        self.add("processes", pid=pid, start_ns=start_ns, **process)

    def add(self, table: str, **values: int | str | bytes) -> int:
        """Appends a record; texts are given as themselves. Its id."""
        columns = TABLE[table].columns
        plain = {column.name: self.plain(values.get(column.name, 0)) for column in columns}
        record = pack((COMMIT, *columns), {"commit": 0, **plain})
        self.records.setdefault(table, []).append(struct.pack("<I", check_word(record)) + record[4:])
        return len(self.records[table])

    def plain(self, value: int | str | bytes) -> int:
        return value if isinstance(value, int) else self.text(value)

    def text(self, text: str | bytes) -> int:
        data = text.encode() if isinstance(text, str) else text
        if not data:
            return 0
        reference = len(self.stream) // 8 + 1
        entry = struct.pack("<II", 0, len(data)) + data + bytes(-len(data) % 8)
        self.stream += struct.pack("<I", check_word(entry)) + entry[4:]
        return reference

    def write(self, profile: Path) -> Path:
        folder = profile / "spool" / f"{self.pid}.{self.start_ns}"
        folder.mkdir(parents=True)
        for number, table in enumerate(TABLES):
            if records := self.records.get(table.name):
                self.write_file(folder / f"{table.name}.table", number, len(records[0]), b"".join(records))
        if self.stream:
            self.write_file(folder / "strings.table", TABLE_NUMBER, 8, self.stream)
        return folder

    def write_file(self, path: Path, number: int, unit: int, content: bytes) -> None:
        values = {
            "magic": int.from_bytes(SPOOL_MAGIC, "little"),
            "format": self.format,
            "table": number,
            "record_bytes": unit,
            "pid": self.pid,
            "next": len(content) // unit,
        }
        header = pack(SPOOL_HEADER, values)
        room = -len(content) % 4096  # a chunk of disk is taken at a time
        path.write_bytes(header.ljust(HEADER_BYTES, b"\0") + content + bytes(room))


def pack(columns: tuple[Column, ...], values: dict[str, int]) -> bytes:
    placed, size = layout(columns)
    record = bytearray(size)
    for column, offset in placed:
        struct.pack_into("<" + FORMATS[column.type.numpy], record, offset, values[column.name])
    return bytes(record)


def ended_profile(path: Path, *processes: ProcessFiles, meta: Meta | None = None) -> Path:
    """A profile whose recording has ended and that nobody sealed."""
    (path / "spool").mkdir(parents=True, exist_ok=True)
    (meta or Meta(version="1", command=("program",), complete=True)).write(Folder.open(path))
    with ControlPage.create(Folder.open(path)) as page:
        page.state = ControlState.STOPPED
    for process in processes:
        process.write(path)
    return path


def busy_process(pid: int = 100, start_ns: int = 1_000, samples: int = 50) -> ProcessFiles:
    """A process with some rows in the tables that refer to each other."""
    files = ProcessFiles(pid, start_ns, command=0)
    stack = 0
    for depth in range(5):
        stack = files.add("stacks", parent=stack, frame=3 << 60 | depth << 32)
    thread = files.add("threads", tid=pid, creator=stack, start_ns=start_ns, name="main")
    files.add("modules", path="/usr/lib/libm.so", build_id=b"\1\2\3\4", base=4096, low=8192, high=12288)
    files.add("codes", filename="a.py", qualname="f", linetable=bytes(range(200)), first_line=3)
    files.add("marks", text="[wait]")
    for number in range(samples):
        files.add("cpu_samples", thread=thread, stack=1 + number % 5, weight=1, time_ns=start_ns + number, period_ns=5_000_000)
    files.add("launches", thread=thread, stack=stack, api=1, correlation=7)
    shape = files.add("kernel_shapes", name="gemm", device="gpu", api=1)
    files.add("kernels", shape=shape, api=1, correlation=7, start_ns=5, end_ns=9)
    files.add("notes", text="something was not possible", time_ns=5)
    files.add("thread_ends", thread=thread, name="main", end_ns=start_ns + 100)
    files.add("process_ends", end_ns=start_ns + 100)
    return files
