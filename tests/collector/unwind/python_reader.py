"""The reader of Python frames inside the interpreter that runs this: loads the library, and decodes frame words.

Runs under every CPython that is read, with the standard library alone.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import shutil
import struct
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
ROOM = 1024
sys.path.insert(0, str(ROOT / "src"))

from aiflame.profile.schema import all_tables, records  # noqa: E402
from aiflame.profile.schema.control_schema import CONTROL, CONTROL_MAGIC, FORMAT, ControlState  # noqa: E402


def load_module(path: Path) -> ModuleType:
    """A source file of a package whose dependencies the interpreter may not have."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


lines: Any = load_module(ROOT / "src/aiflame/resolve/python/lines.py")


@dataclass(frozen=True)
class Frame:
    code: int
    """row of `codes`"""
    offset: int
    """byte offset of the instruction; -1: before the first"""
    evaluator: int
    entry: bool


@dataclass(frozen=True)
class Code:
    """A row of `codes`."""

    first_line: int
    filename: str
    qualname: str
    linetable: bytes
    python: int


def make_profile(profile: Path) -> None:
    """An empty profile whose control page says: record."""
    (profile / "spool").mkdir()
    columns, _ = records.layout(CONTROL)
    control = bytearray(4096)
    values = {"magic": int.from_bytes(CONTROL_MAGIC, "little"), "format": FORMAT, "state": int(ControlState.RECORDING)}
    for column, offset in columns:
        width = int(column.type.numpy[-1])
        control[offset : offset + width] = values.get(column.name, 0).to_bytes(width, "little")
    (profile / "control").write_bytes(control)


def remove_own(profile: Path, made_by: int) -> None:
    """Not for a forked child."""
    if os.getpid() == made_by:
        shutil.rmtree(profile, ignore_errors=True)


class Reader:
    """The library in this process, with a profile in a folder of its own."""

    def __init__(self, library: Path) -> None:
        preloaded = os.environ.get("PYTHON_READER_PROFILE")
        self.profile = Path(preloaded or tempfile.mkdtemp(prefix="python-reader-"))
        if not preloaded:
            atexit.register(remove_own, self.profile, os.getpid())
            make_profile(self.profile)
        self.library = ctypes.PyDLL(str(library))
        self.library.test_walk.restype = ctypes.c_size_t
        self.library.test_sample.restype = ctypes.c_size_t
        self.library.test_stop_ticks.restype = ctypes.c_size_t
        self.library.test_stack_address.restype = ctypes.c_uint64
        self.library.test_code_id.argtypes = [ctypes.c_uint64]
        self.library.test_time_walk.restype = ctypes.c_double
        self.library.test_sampled.restype = ctypes.c_size_t
        self.library.test_walk_in_foreign_thread.restype = ctypes.c_size_t
        if not preloaded:
            self.library.test_setup(str(self.profile).encode())
        assert self.library.test_version() == sys.hexversion >> 16

    def walk(self) -> list[Frame]:
        """The frames of the caller as the library reads them, this call's own left out."""
        words, evaluators, entries = (ctypes.c_uint64 * ROOM)(), (ctypes.c_uint64 * ROOM)(), (ctypes.c_uint8 * ROOM)()
        count = self.library.test_walk(words, evaluators, entries, ROOM)
        return [frame_of(words[at], evaluators[at], bool(entries[at])) for at in range(1, count)]

    def sample(self, index: int) -> list[Frame]:
        words = (ctypes.c_uint64 * ROOM)()
        count = self.library.test_sample(ctypes.c_size_t(index), words)
        return [frame_of(words[at]) for at in range(count)]

    def code_id(self, code: CodeType) -> int:
        return int(self.library.test_code_id(id(code)))

    def codes(self, folder: Path | None = None) -> dict[int, Code]:
        """Every row of `codes` that was written so far, by this process or into `folder`."""
        folder = folder or self.profile / "spool" / f"{os.getpid()}.1"
        strings = (folder / "strings.table").read_bytes()

        def bytes_at(reference: int) -> bytes:
            if not reference:
                return b""
            start = all_tables.HEADER_BYTES + (reference - 1) * 8
            (length,) = struct.unpack_from("<I", strings, start + 4)
            return strings[start + 8 : start + 8 + length]

        data = (folder / "codes.table").read_bytes()
        columns, size = records.layout((records.COMMIT, *all_tables.TABLE["codes"].columns))
        places = {column.name: offset for column, offset in columns}
        rows: dict[int, Code] = {}
        for row in range(1, (len(data) - all_tables.HEADER_BYTES) // size + 1):
            start = all_tables.HEADER_BYTES + (row - 1) * size
            value = {name: struct.unpack_from("<I", data, start + offset)[0] for name, offset in places.items()}
            if value["commit"]:
                rows[row] = Code(
                    value["first_line"],
                    bytes_at(value["filename"]).decode("utf-8", "surrogateescape"),
                    bytes_at(value["qualname"]).decode("utf-8", "surrogateescape"),
                    bytes_at(value["linetable"]),
                    value["python"],
                )
        return rows


def frame_of(word: int, evaluator: int = 0, entry: bool = False) -> Frame:
    assert word >> 60 == 3
    return Frame(word >> 32 & 0xFFFFFFF, (word & 0xFFFFFFFF) - 1, evaluator, entry)


def frames_of(frame: FrameType | None) -> list[FrameType]:
    """The interpreter's own chain."""
    chain = []
    while frame is not None:
        chain.append(frame)
        frame = frame.f_back
    return chain


def code_of(code: CodeType) -> Code:
    """The expected row of `codes`."""
    qualname = getattr(code, "co_qualname", code.co_name)  # since 3.11
    return Code(code.co_firstlineno, code.co_filename, qualname, code.co_linetable, sys.hexversion >> 16)
