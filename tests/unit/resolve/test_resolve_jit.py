"""Names of code made at run time: perf maps and jitdumps made by hand, and methods that were reported."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import Row, sealed, stack, this_machine

from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile
from aiflame.resolve.jit.dumps import JitNames, jitdump, perf_map
from aiflame.resolve.symbols import resolve

START = 0x7F00_0000_1000
PID = 4_000_123
"""No process has it: ids end at 2^22."""


def address(value: int) -> int:
    return FrameKind.ADDRESS << 60 | value


def resolved(path: Path, *words: int, meta: Meta | None = None, **tables: list[Row]) -> Profile:
    tables.setdefault("processes", [{"pid": PID, "start_ns": 5}])
    profile = sealed(path / "p.aiflame", meta, stacks=stack(*words), **tables)
    resolve(profile, outside=this_machine())
    return profile


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("<IIQ", kind, 16 + len(body), 0) + body


def load(name: str, start: int, size: int, index: int = 0) -> bytes:
    return record(0, struct.pack("<IIQQQQ", PID, PID, start, start, size, index) + name.encode() + b"\0" + b"\x90" * size)


def move(old: int, new: int, size: int, index: int = 0) -> bytes:
    return record(1, struct.pack("<IIQQQQQ", PID, PID, new, old, new, size, index))


def lines(start: int, *entries: tuple[int, int, str]) -> bytes:
    packed = b"".join(struct.pack("<QII", at, line, 0) + (file.encode() or b"\xff") + b"\0" for at, line, file in entries)
    return record(2, struct.pack("<QQ", start, len(entries)) + packed)


def dump(*records: bytes, magic: int = 0x4A695444) -> bytes:
    return struct.pack("<IIIIIIQQ", magic, 1, 40, 62, 0, PID, 0, 0) + b"".join(records)


def test_a_perf_map_that_the_recorder_kept_names_addresses(tmp_path: Path) -> None:
    folder = tmp_path / "p.aiflame" / "jit"
    folder.mkdir(parents=True)
    (folder / f"perf-{PID}.map").write_text(f"{START:x} 40 LazyCompile:*foo a.js:1\n{START + 0x40:x} 10 bar\n")
    words = [address(START + 0x3F), address(START + 0x41), address(START + 0x90)]
    shown = resolved(tmp_path, *words).table("symbols").sort("offset")
    assert shown.select("name", "module", "kind", "offset").rows() == [
        ("bar", "[JIT]", Kind.C, 1),
        ("LazyCompile:*foo a.js:1", "[JIT]", Kind.C, 0x3F),
        (f"[unknown] [JIT]+0x{START + 0x90:x}", "[JIT]", Kind.C, START + 0x90),
    ]


@pytest.mark.parametrize("written", ["while it ran", "before it started"])
def test_a_perf_map_in_tmp_is_believed_only_for_its_own_process(tmp_path: Path, written: str) -> None:
    path = Path(f"/tmp/perf-{PID}.map")
    path.write_text(f"{START:x} 40 foo\n")
    now = time.time()
    try:
        os.utime(path, (now, now + (1 if written == "while it ran" else -10)))
        meta = Meta(started=Clocks(monotonic_ns=5, realtime_ns=int(now * 1e9)))
        (name,) = resolved(tmp_path, address(START + 4), meta=meta).table("symbols")["name"]
    finally:
        path.unlink()
    assert (name == "foo") == (written == "while it ran")


def test_a_pipe_in_tmp_is_not_waited_for(tmp_path: Path) -> None:
    path = Path(f"/tmp/perf-{PID}.map")
    os.mkfifo(path)
    try:
        meta = Meta(started=Clocks(monotonic_ns=5, realtime_ns=1))
        (name,) = resolved(tmp_path, address(START), meta=meta).table("symbols")["name"]
    finally:
        path.unlink()
    assert name.startswith("[unknown]")


def test_a_jitdump_names_addresses_with_file_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "p.aiflame" / "jit"
    folder.mkdir(parents=True)
    content = dump(lines(START, (START, 3, "k.py"), (START + 8, 5, ""), (START + 16, 9, "other.py")), load("_ZN3app6kernelEi", START, 32))
    (folder / f"jit-{PID}.dump").write_bytes(content)
    # A return address belongs to the instruction before it.
    shown = resolved(tmp_path, *(address(START + at) for at in (8, 9, 20))).table("symbols").sort("offset")
    assert shown["name"].to_list() == ["app::kernel"] * 3
    assert shown["kind"].to_list() == [Kind.CPP] * 3
    assert list(zip(shown["file"], shown["line"], strict=True)) == [("k.py", 3), ("k.py", 5), ("other.py", 9)]


def test_code_that_was_moved_is_found_at_both_places() -> None:
    names = JitNames(jitdump(dump(load("foo", START, 16), move(START, START + 0x1000, 16))))
    for place in (START + 3, START + 0x1003):
        answer = names.lookup(place)
        assert answer is not None
        assert (answer.method.name, answer.certain) == ("foo", True)


def test_of_two_methods_at_one_place_the_newer_is_named_and_said_to_be_uncertain() -> None:
    names = JitNames(jitdump(dump(load("old", START, 64), load("new", START + 16, 16, 1))))
    inside, outside = names.lookup(START + 20), names.lookup(START + 40)
    assert inside is not None
    assert outside is not None
    assert (inside.method.name, inside.certain) == ("new", False)
    assert (outside.method.name, outside.certain) == ("old", True)


def test_lines_of_a_perf_map_that_do_not_parse_are_passed_over() -> None:
    data = b"nonsense\n\xff\xfe 10 x\n10 zz y\n20 0 empty\n-5 10 negative\n1000 10\n2000 10 good name\xff\n3000 fffffffffffff huge\n"
    assert [(method.name, method.start, method.size) for method in perf_map(data)] == [("good name�", 0x2000, 0x10)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        dump(load("foo", START, 16), magic=0x4454694A),
        dump(struct.pack("<IIQ", 0, 8, 0)),
        dump(struct.pack("<IIQ", 0, 0xFFFFFFFF, 0)),
        dump(record(0, b"short")),
        dump(load("", START, 16)),
        dump(load("wraps", 0xFFFF_FFFF_FFFF_FFFF, 16)),
    ],
    ids=["empty", "other byte order", "record too small", "record too large", "load cut", "no name", "beyond memory"],
)
def test_a_jitdump_that_is_none_gives_nothing(data: bytes) -> None:
    assert list(jitdump(data)) == []


@given(st.binary(max_size=400), st.integers(0, 400), st.binary(max_size=20))
def test_any_bytes_are_read_without_failure(tail: bytes, at: int, patch: bytes) -> None:
    whole = dump(lines(START, (START, 3, "k.py"), (START + 8, 5, "")), load("foo", START, 32), move(START, START + 64, 32)) + tail
    mixed = whole[:at] + patch + whole[at + len(patch) :]
    for methods in (jitdump(mixed), perf_map(mixed)):
        JitNames(methods).lookup(START + 1)


def test_methods_that_the_compiler_reported(tmp_path: Path) -> None:
    word = FrameKind.JIT << 60 | 2 << 32 | 0x21
    lost = FrameKind.JIT << 60 | 3 << 32 | 0x10
    methods: list[Row] = [
        {"name": "first"},
        {
            "name": "jit_avx512_core:conv\n",
            "source": "conv.cpp",
            "lines": struct.pack("<IIII", 0x20, 12, 0x30, 14),
            "address": START,
            "size": 64,
        },
    ]
    shown = resolved(tmp_path, word, lost, jit_methods=methods).table("symbols").sort("offset", descending=True)
    assert shown.select("name", "module", "file", "line", "offset").rows() == [
        ("jit_avx512_core:conv?", "[JIT]", "conv.cpp", 12, 0x21),
        ("[unknown] [JIT] method 3+0x10", "[JIT]", "", 0, 0x10),
    ]
