"""Records of EU stalls, decoded as Intel's own driver decodes them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from aiflame.profile.folder.eu_stall_files import ROW
from aiflame.recorder.eu_stalls.records import PONTE_VECCHIO, RECORD_BYTES, XE2, XE3P, Layout, decode, layout_of, together

DATA = Path(__file__).parents[2] / "data/eu_stalls"
DRIVERS_NAMES = {
    "Active": "active", "PSDepStall": "tdr", "ControlStall": "control", "PipeStall": "pipestall", "SendStall": "send",
    "DistStall": "dist_acc", "SbidStall": "sbid", "SyncStall": "sync", "InstrFetchStall": "inst_fetch", "OtherStall": "other",
}  # fmt: skip


@pytest.mark.parametrize(("gpu", "layout"), [("lnl", XE2), ("pvc", PONTE_VECCHIO)])
def test_the_drivers_own_decoding(gpu: str, layout: Layout) -> None:
    records = (DATA / f"stalls.{gpu}.raw.bin").read_bytes()
    text = (DATA / f"stalls.{gpu}.decoded.txt").read_text()
    names = [DRIVERS_NAMES[name] for name in re.findall(r"(\w+)\(XVE", text)[1:]]
    said = re.findall(r"^  ip (\w+) offset \w+: (.*)$", text, re.MULTILINE)
    assert len(said) == len(records) // RECORD_BYTES
    expected = {int(address, 16): dict(zip(names, map(int, counts.split()), strict=True)) for address, counts in said}
    decoded = decode(records, layout)
    rows = [dict(zip(layout.fields, counts, strict=True)) for counts in decoded.counts.tolist()]
    assert dict(zip(decoded.address.tolist(), rows, strict=True)) == expected
    assert decoded.overflows == 0


@pytest.mark.parametrize("layout", [PONTE_VECCHIO, XE2, XE3P])
def test_each_field_alone_and_all_at_once(layout: Layout) -> None:
    address = (1 << layout.address_bits) - 8
    for place in range(len(layout.fields)):
        decoded = decode(_record(layout, address, {place: 255}), layout)
        assert decoded.counts.tolist() == [[255 if at == place else 0 for at in range(len(layout.fields))]]
        assert decoded.address.tolist() == [address]
    every = dict(enumerate(range(1, len(layout.fields) + 1)))
    assert decode(_record(layout, address, every), layout).counts.tolist() == [list(every.values())]


def test_counts_of_an_address_add_up() -> None:
    parts = [b"".join(_record(XE2, address, {2: 200, 9: 1}) for address in (64, 8, 64)), _record(XE2, 8, {0: 3})]
    whole = together([decode(part, XE2) for part in parts])
    assert whole.address.tolist() == [8, 64]
    assert list(ROW.iter_unpack(whole.rows())) == [(8, 0, 3), (8, 2, 200), (8, 9, 1), (64, 2, 400), (64, 9, 2)]


def test_no_records_and_a_record_cut_off() -> None:
    nothing = decode(b"", XE2)
    assert (len(nothing.address), nothing.rows()) == (0, b"")
    assert len(decode(_record(XE2, 8, {0: 1})[:-1], XE2).address) == 0


def test_ponte_vecchio_marks_a_record_after_which_others_were_lost() -> None:
    record = bytearray(_record(PONTE_VECCHIO, 8, {0: 1}))
    struct.pack_into("<H", record, 50, 1 << 8)
    assert decode(bytes(record), PONTE_VECCHIO).overflows == 1
    assert decode(bytes(record), XE2).overflows == 0


def test_generations() -> None:
    layouts = {(12, 60): PONTE_VECCHIO, (12, 61): PONTE_VECCHIO, (20, 1): XE2, (20, 4): XE2, (30, 0): XE2, (30, 3): XE2, (35, 11): XE3P}
    unknown = [(12, 55), (12, 70), (12, 74), (13, 0), (31, 0), (36, 0)]
    assert {version: layout_of(version) for version in (*layouts, *unknown)} == {**layouts, **dict.fromkeys(unknown)}


def _record(layout: Layout, address: int, counts: dict[int, int]) -> bytes:
    value = address >> 3
    for place, count in counts.items():
        value |= count << (layout.ip_bits + 8 * place)
    return value.to_bytes(RECORD_BYTES, "little")
