"""Reading one process's spool folder."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from spool_files import ProcessFiles, busy_process

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES, TABLES
from aiflame.profile.schema.records import Type
from aiflame.profile.spool.check_words import check_word, intact_entries, intact_records
from aiflame.profile.spool.process_spool import DAMAGED_TEXT, READ_FIRST, REFERENCES, ProcessSpool, read


def damage_of(folder: Path) -> dict[str, int]:
    with ProcessSpool(Folder.open(folder)) as spool:
        for _ in spool.chunks():
            pass
        return dict(spool.damage)


def flip(path: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("table", [table for table in TABLES if table.name != "processes"], ids=lambda table: table.name)
def test_rows_come_back_as_written(tmp_path, table):
    files, chance = ProcessFiles(), random.Random(table.name)
    for name in READ_FIRST:
        for _ in range(3 if table.name != name else 0):
            files.add(name)
    rows = []
    for number in range(20):
        row: dict[str, str | bytes | int] = {}
        for column in table.columns:
            if column.type is Type.STR:
                row[column.name] = chance.choice(["", "a", "name of eight", "ünï\0code"])
            elif column.type is Type.BLOB:
                row[column.name] = chance.randbytes(chance.randrange(40))
            elif (table.name, column.name) in REFERENCES:
                row[column.name] = min(number, chance.randrange(4))
            else:
                signed, bits = column.type.numpy[1] == "i", 8 * int(column.type.numpy[-1])
                quantity = column.name.endswith("_ns") or column.name in ("bytes", "size")
                row[column.name] = chance.getrandbits(bits - 2 * (quantity and bits == 64)) - ((1 << bits - 1) if signed else 0)
        files.add(table.name, **row)
        rows.append(row)
    frame = read(Folder.open(files.write(tmp_path)))[table.name]
    assert frame["id"].to_list() == list(range(1, 21))
    assert frame.drop("id").to_dicts() == rows


def test_the_process_has_one_row_even_when_its_record_is_lost(tmp_path):
    files = busy_process(pid=77, start_ns=5)
    files.records["processes"] = []
    row = read(Folder.open(files.write(tmp_path)))["processes"]
    assert row.select("id", "pid", "start_ns", "command", "forked").rows() == [(1, 77, 5, "", 0)]


def test_a_process_that_recorded_nothing_has_no_row(tmp_path):
    folder = tmp_path / "spool" / "5.6"
    folder.mkdir(parents=True)
    (folder / "cpu_samples.table").touch()
    assert read(Folder.open(folder))["processes"].is_empty()


@pytest.mark.parametrize(
    ("written", "read_back"),
    [
        (b"nul\0inside", "nul\0inside"),
        (b"not utf-8: \xff", "not utf-8: \ufffd"),
        (b"x" * (1 << 20), "x" * (1 << 20)),
        ("€".encode(), "€"),
        (b"y" * (1 << 20 | 1), DAMAGED_TEXT),
    ],
    ids=["nul", "not utf-8", "a megabyte", "euro", "longer than the collector writes"],
)
def test_hostile_texts(tmp_path, written, read_back):
    files = ProcessFiles()
    files.add("marks", text=written)
    assert read(Folder.open(files.write(tmp_path)))["marks"]["text"].to_list() == [read_back]


def test_every_flipped_bit_of_a_record_is_noticed():
    files = busy_process()
    record = files.records["cpu_samples"][0]
    flipped = np.frombuffer(record * len(record) * 8, "<u8").reshape(-1, len(record) // 8).copy()
    for bit in range(len(record) * 8):
        flipped[bit, bit // 64] ^= np.uint64(1 << bit % 64)
    assert not intact_records(flipped).any()


@pytest.mark.parametrize("length", [1, 7, 8, 9, 100])
def test_every_flipped_bit_of_a_text_is_noticed(length):
    files = ProcessFiles()
    files.text("x" * length)
    for bit in range(32, len(files.stream) * 8):  # the check word itself differs from a right one by definition
        stream = bytearray(files.stream)
        stream[bit // 8] ^= 1 << bit % 8
        words = np.frombuffer(bytes(stream), "<u8")
        assert not intact_entries(words, np.array([0]), np.array([len(words)]))[0]


def test_many_entries_are_checked_like_one():
    chance = random.Random(1)
    entries = [chance.randbytes(8 * chance.choice([1, 2, 3, 30, 500])) for _ in range(300)]
    right = [bool(number % 3) for number in range(300)]
    stream = b"".join(struct.pack("<I", check_word(e) ^ (not ok)) + e[4:] for e, ok in zip(entries, right, strict=True))
    units = np.array([len(entry) // 8 for entry in entries])
    intact = intact_entries(np.frombuffer(stream, "<u8"), np.cumsum(units) - units, units)
    assert intact.tolist() == right


def test_a_damaged_record_is_left_out_and_counted(tmp_path):
    folder = busy_process(samples=10).write(tmp_path)
    flip(folder / "cpu_samples.table", HEADER_BYTES + 3 * 40 + 17)
    assert read(Folder.open(folder))["cpu_samples"]["id"].to_list() == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert damage_of(folder) == {"damaged records of cpu_samples left out": 1}


def test_an_unfinished_record_is_left_out_silently(tmp_path):
    files = busy_process(samples=3)
    files.records["cpu_samples"][1] = bytes(4) + files.records["cpu_samples"][1][4:]
    folder = files.write(tmp_path)
    assert read(Folder.open(folder))["cpu_samples"]["id"].to_list() == [1, 3]
    assert damage_of(folder) == {}


def test_a_damaged_text_says_so(tmp_path):
    files = ProcessFiles()
    files.add("marks", text="first")
    files.add("marks", text="second")
    files.add("codes", linetable=b"\1\2\3")
    folder = files.write(tmp_path)
    flip(folder / "strings.table", HEADER_BYTES + 8)
    flip(folder / "strings.table", HEADER_BYTES + 16 * 2 + 8)
    assert read(Folder.open(folder))["marks"]["text"].to_list() == [DAMAGED_TEXT, "second"]
    assert read(Folder.open(folder))["codes"]["linetable"].to_list() == [b""]
    assert damage_of(folder) == {"damaged texts in marks": 1, "damaged texts in codes": 1}


@pytest.mark.parametrize("reference", [2, 1000, 0xFFFFFFFF])
def test_a_reference_past_the_strings_is_damage(tmp_path, reference):
    files = ProcessFiles()
    files.add("marks", text=reference)
    files.text("only")
    assert read(Folder.open(files.write(tmp_path)))["marks"]["text"].to_list() == [DAMAGED_TEXT]


def test_entries_that_overlap_cost_no_more_than_the_stream(tmp_path):
    """A stream that claims a megabyte at each of its units would take days to verify."""
    files = ProcessFiles()
    files.stream = struct.pack("<II", 1, 1 << 20) * (1 << 18)
    for reference in range(1, 100_001):
        files.add("marks", text=reference)
    assert read(Folder.open(files.write(tmp_path)))["marks"]["text"].unique().to_list() == [DAMAGED_TEXT]


def test_a_huge_text_in_many_rows_is_cut(tmp_path):
    files = ProcessFiles()
    reference = files.text("k" * (1 << 20))
    for _ in range(20_000):
        files.add("marks", text=reference)
    folder = files.write(tmp_path)
    with ProcessSpool(Folder.open(folder)) as spool:
        for _, frame in spool.chunks():
            assert frame["text"].str.len_bytes().unique().to_list() == [4096]
        assert spool.damage == {"long texts in marks cut to 4096 bytes": 1}


def test_a_stack_never_names_a_later_one_or_itself(tmp_path):
    files = ProcessFiles()
    files.add("stacks", parent=0, frame=1)
    files.add("stacks", parent=2, frame=2)
    files.add("stacks", parent=4, frame=3)
    files.add("stacks", parent=3, frame=4)
    files.add("cpu_samples", stack=2)
    folder = files.write(tmp_path)
    tables = read(Folder.open(folder))
    assert tables["stacks"].select("id", "parent").rows() == [(1, 0), (4, 0)]
    assert tables["cpu_samples"]["stack"].to_list() == [0]
    assert damage_of(folder) == {
        "stacks left out that name a later one as their caller": 2,
        "rows of stacks whose parent is missing": 1,
        "rows of cpu_samples whose stack is missing": 1,
    }


@pytest.mark.parametrize(("table", "column"), [("cpu_samples", "time_ns"), ("kernels", "end_ns"), ("copies", "bytes")])
def test_times_and_sizes_that_cannot_be_are_left_out(tmp_path, table, column):
    files = ProcessFiles()
    files.add(table, **{column: (1 << 62) - 1})
    files.add(table, **{column: 1 << 62})
    folder = files.write(tmp_path)
    assert read(Folder.open(folder))[table]["id"].to_list() == [1]
    assert damage_of(folder) == {f"records of {table} with impossible values left out": 1}


def test_references_to_missing_rows_become_none(tmp_path):
    files = busy_process(samples=1)
    files.add("cpu_samples", thread=9, stack=1 << 31)
    files.add("launches", thread=0xFFFFFFFF, stack=5)
    files.add("thread_ends", thread=2)
    tables = read(Folder.open(files.write(tmp_path)))
    assert tables["cpu_samples"].select("thread", "stack").rows() == [(1, 1), (0, 0)]
    assert tables["launches"].select("thread", "stack").rows() == [(1, 5), (0, 5)]
    assert tables["thread_ends"]["thread"].to_list() == [1, 0]


def test_a_newer_format_is_refused_with_advice(tmp_path):
    files = busy_process()
    files.format = 7
    with pytest.raises(AiflameError, match=r"written by a newer aiflame \(format 7; this one reads 1\): upgrade"):
        ProcessSpool(Folder.open(files.write(tmp_path)))


def test_one_damaged_header_does_not_hide_its_records(tmp_path):
    folder = busy_process(samples=5).write(tmp_path)
    (folder / "cpu_samples.table").write_bytes(b"\xff" * 64 + (folder / "cpu_samples.table").read_bytes()[64:])
    flip(folder / "stacks.table", 8, 3)  # its format
    assert len(read(Folder.open(folder))["cpu_samples"]) == 5
    assert len(read(Folder.open(folder))["stacks"]) == 5


@pytest.mark.parametrize("size", [0, 1, 40, 4095, 4096, 4097, 4096 + 39, 4096 + 40, 4096 + 41, 4096 + 10 * 40 - 1])
def test_a_file_cut_short_gives_its_whole_records(tmp_path, size):
    folder = busy_process(samples=10).write(tmp_path)
    os.truncate(folder / "cpu_samples.table", size)
    assert len(read(Folder.open(folder))["cpu_samples"]) == max(size - HEADER_BYTES, 0) // 40


@pytest.mark.parametrize("size", [0, 4096, 4099, 4104, 4130])
def test_cut_strings_leave_the_other_columns(tmp_path, size):
    folder = busy_process(samples=10).write(tmp_path)
    os.truncate(folder / "strings.table", size)
    tables = read(Folder.open(folder))
    assert tables["kernel_shapes"]["name"].to_list() == [DAMAGED_TEXT]
    assert tables["kernels"].select("shape", "correlation").rows() == [(1, 7)]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_table_that_is_no_plain_file_is_not_read(tmp_path, kind):
    folder = busy_process().write(tmp_path)
    path = folder / "cpu_samples.table"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert read(Folder.open(folder))["cpu_samples"].is_empty()


def test_a_large_table_is_read_in_pieces_without_gaps(tmp_path):
    files = busy_process(samples=0)
    record = files.records["thread_ends"][0]
    files.records["thread_ends"] = [record] * 400_000
    with ProcessSpool(Folder.open(files.write(tmp_path))) as spool:
        pieces = [frame for name, frame in spool.chunks() if name == "thread_ends"]
    assert len(pieces) > 1
    assert pl.concat(pieces)["id"].to_list() == list(range(1, 400_001))
