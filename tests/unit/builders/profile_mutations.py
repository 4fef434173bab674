"""Damages profiles in every way we can think of, and says whether one still behaves: an AiflameError, or a sound profile."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

from spool_files import ProcessFiles, busy_process, ended_profile

from aiflame.errors import AiflameError
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.all_tables import HEADER_BYTES, TABLE
from aiflame.profile.spool.check_words import check_word
from aiflame.profile.spool.process_spool import REFERENCES, record_type

Files = dict[str, bytes]
"""Relative path → content."""

EDGES = (0, 1, 2, 7, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
NAMES = ("0.0", "7", "99999999999.5", "x.y", "100.1000.2", "\u0661.5", "a\nb", "-1.-1", "1." + "9" * 40)


def raw_profile(folder: Path) -> Files:
    """A recording with three processes that nobody sealed."""
    other = ProcessFiles(pid=101, start_ns=1_500, command="python\0a.py", exe="/usr/bin/python3", cwd="/tmp", forked=1)
    for number in range(200):
        other.add("marks", text=f"mark {number}" * (number % 9))
    other.add("marks", text="x" * 70_000)
    processes = (busy_process(), other, busy_process(pid=102, start_ns=1_200, samples=300))
    return _files(ended_profile(folder / "raw.aiflame", *processes))


def sealed_profile(folder: Path) -> Files:
    raw_profile(folder)
    open_profile(folder / "raw.aiflame")
    return _files(folder / "raw.aiflame")


def mutated(files: Files, chance: random.Random) -> Files:
    """A copy with one to four mutations."""
    files = dict(files)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if files:
            chance.choice(MUTATIONS)(files, chance)
    return files


def write(files: Files, path: Path) -> Path:
    path.mkdir()
    for name, content in files.items():
        target = path / name
        if not any(parent.is_file() for parent in target.parents):
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_dir():
                target.write_bytes(content)
    return path


def verdict(path: Path) -> str:
    """The error's text, or "" for a profile whose tables all could be read. Anything else raises."""
    try:
        profile = open_profile(path)
        profile.notes()
        tables = {name: profile.table(name) for name in TABLE}
        profile.sql("SELECT COUNT(*) FROM cpu_samples JOIN threads ON cpu_samples.thread = threads.id")
    except AiflameError as error:
        assert str(error)
        assert "\n" not in str(error).replace(str(path), "")
        return str(error)
    processes = tables["processes"]["process"].to_list()
    assert processes == list(range(len(processes)))
    for table, column in REFERENCES:
        meant = tables[REFERENCES[table, column]].select("process", "id")
        used = tables[table].filter(tables[table][column] != 0).select("process", id=column)
        assert used.join(meant, on=["process", "id"], how="anti").is_empty(), f"{table}.{column} refers to nothing"
    assert (tables["stacks"]["parent"] < tables["stacks"]["id"]).all()
    return ""


def _flip_bits(files: Files, chance: random.Random) -> None:
    name, data = _pick(files, chance)
    for _ in range(chance.choice((1, 1, 1, 8, 200))):
        if data:
            data[_place(data, chance)] ^= 1 << chance.randrange(8)
    files[name] = bytes(data)


def _overwrite(files: Files, chance: random.Random) -> None:
    name, data = _pick(files, chance)
    at, size = _place(data, chance), chance.choice((1, 4, 64, 4096))
    data[at : at + size] = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size), b"\x80" * size))
    files[name] = bytes(data)


def _edge_value(files: Files, chance: random.Random) -> None:
    name, data = _pick(files, chance)
    at = _place(data, chance) & ~7
    data[at : at + 8] = struct.pack("<Q", chance.choice(EDGES))
    files[name] = bytes(data)


def _cut(files: Files, chance: random.Random) -> None:
    name, data = _pick(files, chance)
    files[name] = bytes(data[: chance.choice((0, _place(data, chance), len(data) - 1))])


def _grow(files: Files, chance: random.Random) -> None:
    name, data = _pick(files, chance)
    files[name] = bytes(data) + chance.choice((chance.randbytes(5000), bytes(data), b"\0"))


def _insert(files: Files, chance: random.Random) -> None:
    name, data = _pick(files, chance)
    at = _place(data, chance)
    files[name] = bytes(data[:at]) + chance.randbytes(chance.randrange(1, 40)) + bytes(data[at:])


def _delete(files: Files, chance: random.Random) -> None:
    del files[_pick(files, chance)[0]]


def _delete_folder(files: Files, chance: random.Random) -> None:
    folder = _pick(files, chance)[0].rpartition("/")[0]
    for name in [name for name in files if folder and name.startswith(folder + "/")]:
        del files[name]


def _swap(files: Files, chance: random.Random) -> None:
    one, other = _pick(files, chance)[0], _pick(files, chance)[0]
    files[one], files[other] = files[other], files[one]


def _splice(files: Files, chance: random.Random) -> None:
    """A piece of one file in the middle of another."""
    name, data = _pick(files, chance)
    _, source = _pick(files, chance)
    begin, size, at = _place(source, chance), chance.choice((8, 100, 5000)), _place(data, chance)
    data[at : at + size] = source[begin : begin + size]
    files[name] = bytes(data)


def _rename(files: Files, chance: random.Random) -> None:
    name = _pick(files, chance)[0]
    folder, _, last = name.rpartition("/")
    renamed = chance.choice((f"{folder}/{chance.choice(NAMES)}/{last}", f"{name}/inside", f"{folder}/{last}x"))
    files[renamed.lstrip("/")] = files.pop(name)


def _forge_record(files: Files, chance: random.Random) -> None:
    """A record with absurd values and a right check word."""
    tables = [name for name in files if name.endswith(".table") and Path(name).stem in TABLE]
    if not tables:
        return
    name = chance.choice(tables)
    size = record_type(TABLE[Path(name).stem]).itemsize
    data = bytearray(files[name])
    for _ in range(chance.choice((1, 20))):
        at = HEADER_BYTES + size * chance.randrange(60)
        record = bytearray(data[at : at + size].ljust(size, b"\0"))
        field = chance.randrange(4, size - 3, 4)
        record[field : field + 4] = struct.pack("<I", chance.choice(EDGES) & 0xFFFFFFFF)
        data[at : at + size] = struct.pack("<I", check_word(bytes(record))) + record[4:]
    files[name] = bytes(data)


def _forge_text(files: Files, chance: random.Random) -> None:
    """A strings entry of absurd length."""
    names = [name for name in files if name.endswith("strings.table")]
    if not names:
        return
    name = chance.choice(names)
    data = bytearray(files[name])
    for _ in range(chance.choice((1, 100))):
        at = HEADER_BYTES + 8 * chance.randrange(200)
        data[at : at + 8] = struct.pack("<II", chance.getrandbits(32) | 1, chance.choice((0, 1, 9, 1 << 20, (1 << 20) + 1, 0xFFFFFFFF)))
    files[name] = bytes(data)


MUTATIONS: tuple[Callable[[Files, random.Random], None], ...] = (
    _flip_bits,
    _overwrite,
    _edge_value,
    _cut,
    _grow,
    _insert,
    _delete,
    _delete_folder,
    _swap,
    _splice,
    _rename,
    _forge_record,
    _forge_text,
)


def _pick(files: Files, chance: random.Random) -> tuple[str, bytearray]:
    name = chance.choice(sorted(files))
    return name, bytearray(files[name])


def _place(data: bytes | bytearray, chance: random.Random) -> int:
    """A byte of it; most often in a header or among the first records."""
    near = chance.choice((64, HEADER_BYTES + 1024, len(data)))
    return chance.randrange(max(min(near, len(data)), 1))


def _files(path: Path) -> Files:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
