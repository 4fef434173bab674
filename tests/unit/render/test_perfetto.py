"""A timeline as Perfetto's packets, decoded here by the format's documents. The real viewer reads it in tests/web."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from calling import run_aiflame
from hypothesis import given
from hypothesis import strategies as st
from profiles import sealed
from timelines import Program

from aiflame.attribute.arrays import wire
from aiflame.attribute.timeline.tables import Timeline
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.folder.meta import Clocks
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.tables.store import Profile
from aiflame.render.perfetto import trace as perfetto

CLOCKS = Clocks(1_000, 2_000, 3_000)
Fields = list[tuple[int, int | bytes]]
HOSTILE = (
    "</script><script>alert(1)</script>",
    "nul\0inside",
    "right\u202eto left",
    "x" * 100_000,
    "",
    "\U0001f525",
    "line\nbreak",
    "\x1b[31m",
)


def decode(data: bytes) -> Fields:
    """The fields of a message, in their order."""
    fields: Fields = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            fields.append((tag >> 3, varint()))
        elif tag & 7 == 1:
            fields.append((tag >> 3, data[at : at + 8]))
            at += 8
        else:
            assert tag & 7 == 2, "no other types are written"
            size = varint()
            assert at + size <= len(data)
            fields.append((tag >> 3, data[at : at + size]))
            at += size
    return fields


def packets(trace: bytes) -> Iterator[dict[int, int | bytes]]:
    for field, packet in decode(trace):
        assert field == 1 and isinstance(packet, bytes)
        fields = dict(decode(packet))
        if 50 in fields:
            yield from packets(zlib.decompress(fields[50]))  # type: ignore[arg-type]
        else:
            yield fields


def written(drawn: Timeline) -> bytes:
    file = io.BytesIO()
    perfetto.write(drawn, CLOCKS, file)
    return file.getvalue()


def interned(trace: bytes, field: int) -> dict[int, str]:
    names = {}
    for packet in packets(trace):
        for number, entry in decode(packet.get(12, b"")):  # type: ignore[arg-type]
            if number == field:
                fields = dict(decode(entry))  # type: ignore[arg-type]
                names[fields[1]] = fields[2].decode()  # type: ignore[union-attr]
    return names  # type: ignore[return-value]


def events(trace: bytes) -> list[tuple[int, Fields]]:
    return [(packet[8], decode(packet[11])) for packet in packets(trace) if 11 in packet]  # type: ignore[arg-type,misc]


def test_slices_are_written_with_names_tracks_and_times(tmp_path: Path) -> None:
    program = Program()
    program.kernel(program.launch(10, 300, "", "layers.0", "mm"), 1 << 40, (1 << 40) + 5)
    drawn = timeline(program.profile(tmp_path))
    trace = written(drawn)
    names = interned(trace, 2)
    slices = []
    for time, fields in events(trace):
        plain = dict(fields)
        slices.append((time, plain[9], plain[11], names.get(int(plain.get(10, 0)))))
    expected = []
    for row in drawn.slices.iter_rows(named=True):
        expected.append((row["begin_ns"], 1, row["track"] + 1, drawn.names[row["name"]]))
        expected.append((row["end_ns"], 2, row["track"] + 1, None))
    assert slices == expected


def test_each_arrow_begins_and_ends_once(tmp_path: Path) -> None:
    program = Program()
    launch = program.launch(10, 12)
    for at in range(5):
        program.kernel(launch, 20 + 10 * at, 29 + 10 * at)
    fields = [field for _, event in events(written(timeline(program.profile(tmp_path)))) for field in event]
    begins = [struct.unpack("<Q", value)[0] for number, value in fields if number == 47]  # type: ignore[arg-type]
    ends = [struct.unpack("<Q", value)[0] for number, value in fields if number == 48]  # type: ignore[arg-type]
    assert begins == sorted(set(begins)) == sorted(ends)
    assert len(begins) == 5


def test_all_times_are_those_of_the_monotonic_clock(tmp_path: Path) -> None:
    first, second, *_ = packets(written(timeline(Program().profile(tmp_path))))
    snapshot = decode(first[6])  # type: ignore[arg-type]
    clocks = [dict(decode(value)) for number, value in snapshot if number == 1]  # type: ignore[arg-type]
    assert [(clock[1], clock[2]) for clock in clocks] == [(3, 1_000), (5, 2_000), (1, 3_000)]
    assert dict(snapshot)[2] == 3, "the trace's own clock"
    assert dict(decode(second[59]))[58] == 3, "the clock of every packet that does not say another"  # type: ignore[arg-type]


def test_facts_are_written_as_texts_numbers_and_lists(tmp_path: Path) -> None:
    program = Program()
    program.kernel(program.launch(10, 12, "", "layers.0", "mm"), 20, 30)
    trace = written(timeline(program.profile(tmp_path)))
    keys, texts = interned(trace, 3), interned(trace, 29)

    def value(fields: Fields) -> object:
        plain = dict(fields)
        if 12 in plain:
            return [value(decode(each)) for number, each in fields if number == 12]  # type: ignore[arg-type]
        return texts[plain[17]] if 17 in plain else plain.get(3, plain.get(4))  # type: ignore[index]

    kernel = next(event for _, event in events(trace) if any(number == 48 for number, _ in event))
    facts = {}
    for number, annotation in kernel:
        if number == 4:
            fields = decode(annotation)  # type: ignore[arg-type]
            facts[keys[dict(fields)[1]]] = value(fields)  # type: ignore[index]
    assert facts["layer"] == "layers.0"
    assert facts["registers"] == 40
    assert facts["stack"] == ["model.py:41 Block.forward", "model.py:41 Block.forward", "train.py:12 train"]


@pytest.mark.parametrize(("most", "annotated"), [(1000, 1), (0, 0)])
def test_kernels_name_their_step_unless_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, annotated: int
) -> None:
    program = Program()
    program.kernel(program.launch(10, 12), 20, 30)
    drawn = timeline(program.profile(tmp_path))
    stepping = replace(drawn, slices=drawn.slices.with_columns(step=pl.lit(3, pl.Int32)))
    monkeypatch.setattr(perfetto, "MOST_WITH_STEPS", most)
    trace = written(stepping)
    step = next(number for number, key in interned(trace, 3).items() if key == "step")
    annotations = [dict(decode(value)) for _, event in events(trace) for number, value in event if number == 4]  # type: ignore[arg-type]
    assert [fact[4] for fact in annotations if fact[1] == step] == [3] * annotated, "of the kernel alone: its call lies in the step"


def test_a_profile_is_written_part_by_part_as_its_whole_timeline_would_be(tmp_path: Path) -> None:
    program = Program()
    for name in ("gemm", "softmax", "gemm"):
        program.kernel(program.launch(10, 12), 20, 30, name=name)
    columns = {"thread": 1, "kind": RegionKind.NESTED, "api": RegionApi.NVTX}
    program.rows("regions", {**columns, "name": "epoch", "category": "x", "begin_ns": 5})
    program.rows("region_ends", {"region": 1, "thread": 1, "end_ns": 90})
    profile, file = program.profile(tmp_path), io.BytesIO()
    slices = perfetto.write_profile(profile, CLOCKS, file)
    drawn = timeline(profile)
    parts, whole = file.getvalue(), written(drawn)
    assert slices == len(drawn.slices) > 0
    assert sorted(map(str, events(parts))) == sorted(map(str, events(whole)))
    for field in (1, 2, 3, 29):
        assert interned(parts, field) == interned(whole, field)
    assert [packet[60] for packet in packets(parts) if 60 in packet] == [packet[60] for packet in packets(whole) if 60 in packet]


def test_a_region_without_facts_has_none(tmp_path: Path) -> None:
    program = Program()
    program.rows("regions", {"name": "plain", "thread": 1, "kind": RegionKind.NESTED, "api": RegionApi.NVTX, "begin_ns": 5})
    program.rows("region_ends", {"region": 1, "thread": 1, "end_ns": 9})
    begin, end = events(written(timeline(program.profile(tmp_path))))
    assert (begin[0], end[0]) == (5, 9)
    assert 4 not in dict(begin[1])


def test_hostile_names_are_written_whole_or_cut_and_are_text(tmp_path: Path) -> None:
    program = Program()
    columns = {"thread": 1, "kind": RegionKind.NESTED, "api": RegionApi.NVTX}
    program.rows("regions", *({**columns, "name": name, "category": name, "begin_ns": 10 * at} for at, name in enumerate(HOSTILE)))
    program.rows("region_ends", *({"region": at + 1, "thread": 1, "end_ns": 10 * at + 5} for at in range(len(HOSTILE))))
    names = list(interned(written(timeline(program.profile(tmp_path))), 2).values())
    assert HOSTILE[0] in names
    assert "nul\u2400inside" in names
    assert "right\u202eto left" in names
    assert "x" * perfetto.LONGEST_NAME + "…" in names
    assert "[no name]" in names


def test_letters_that_are_none_are_replaced() -> None:
    assert decode(wire.text(2, "a\ud800b")) == [(2, b"a?b")]


@pytest.mark.parametrize("rows", [[], [{"pid": 5}]])
def test_profiles_without_anything_give_a_trace(tmp_path: Path, rows: list[dict[str, int]]) -> None:
    sealed(tmp_path / "p.aiflame", processes=rows)
    result = run_aiflame("timeline", str(tmp_path / "p.aiflame"), "-o", str(tmp_path / "t.pftrace"))
    assert result.status == 0, result.err
    assert events((tmp_path / "t.pftrace").read_bytes()) == []


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    Program().profile(tmp_path)
    result = run_aiflame("timeline", str(tmp_path / "p.aiflame"), "-o", str(tmp_path / "nowhere" / "t.pftrace"))
    assert result.status == 1
    nowhere = tmp_path / "nowhere" / "t.pftrace"
    assert result.err == f"aiflame: cannot write {nowhere}: no such file or directory: choose another place with -o\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    program = Program()
    program.launch(1, 2)
    program.profile(tmp_path)
    result = run_aiflame("timeline", str(tmp_path / "p.aiflame"), "-o", "/dev/full")
    assert result.err == "aiflame: cannot write /dev/full: no space left on device: choose another place with -o\n"


def test_a_trace_that_was_not_finished_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Program().profile(tmp_path)

    def half(_profile: Profile, _clocks: Clocks, file: io.BufferedWriter, *, samples: bool) -> int:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(perfetto, "write_profile", half)
    result = run_aiflame("timeline", str(tmp_path / "p.aiflame"), "-o", str(tmp_path / "t.pftrace"))
    assert result.status == 1
    assert not (tmp_path / "t.pftrace").exists()


def test_a_truncated_table_is_one_line(tmp_path: Path) -> None:
    program = Program()
    program.kernel(program.launch(1, 2), 3, 4)
    program.profile(tmp_path)
    part = next((tmp_path / "p.aiflame" / "tables" / "kernels").iterdir())
    os.truncate(part, part.stat().st_size // 2)
    result = run_aiflame("timeline", str(tmp_path / "p.aiflame"), "-o", str(tmp_path / "t.pftrace"))
    assert "is damaged (its checksum is wrong)" in result.err
    assert not (tmp_path / "t.pftrace").exists()


_NUMBERS = st.lists(st.integers(0, 2**64 - 1), max_size=20)


@given(_NUMBERS, st.integers(1, 2**29 - 1))
def test_numbers_are_read_as_they_were_written(values: list[int], field: int) -> None:
    count = len(values)
    column = np.array(values, dtype=np.uint64)
    chosen = wire.Chosen([b"", wire.text(7, "aa"), wire.number(8, 300)], column % np.uint64(3))
    inner: list[wire.Part] = [
        wire.Varint(field, column),
        wire.Fixed64(2, column),
        wire.Some(np.flatnonzero(column % 2 == 0), wire.Same(wire.number(3, 1))),
        chosen,
    ]
    messages = decode(wire.encode([wire.Message(1, inner, count)], count))
    choices: list[Fields] = [[], [(7, b"aa")], [(8, 300)]]
    expected: list[Fields] = []
    for value in values:
        repeated = choices[value % 3]
        expected.append([(field, value), (2, struct.pack("<Q", value)), *([(3, 1)] if value % 2 == 0 else []), *repeated])
    assert [decode(message) for _, message in messages] == expected  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 5)), max_size=20))
def test_runs_count_up(runs: list[tuple[int, int]]) -> None:
    first, count = (np.array([run[place] for run in runs], dtype=np.int64) for place in (0, 1))
    messages = decode(wire.encode([wire.Runs(5, first, count)], len(runs)))
    assert [struct.unpack("<Q", value)[0] for _, value in messages] == [begin + at for begin, many in runs for at in range(many)]  # type: ignore[arg-type]


_PIECES = st.lists(st.binary(max_size=30), min_size=1, max_size=5)


@given(_PIECES, st.lists(st.integers(0, 4), max_size=20))
def test_pieces_of_any_length_are_written_beside_each_other(pieces: list[bytes], chosen: list[int]) -> None:
    which = np.array([one % len(pieces) for one in chosen], dtype=np.int64)
    encoded = wire.encode([wire.Same(b"<"), wire.Chosen(pieces, which), wire.Same(b">")], len(which))
    assert encoded == b"".join(b"<" + pieces[one] + b">" for one in which.tolist())
