"""Scopes that kernels recorded, on a timeline: rows for warps of multiprocessors."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from intra_captures import Cta, Kernel, scope, spans
from intra_kernels import BEGIN_NS, ONE_STAGE, gemm, one_stage, profile_of
from profiles import sealed, stack
from small_program import CODES, MAIN, PROCESSES, PYMAIN, SYMBOLS, THREADS, WORK
from timelines import Shown, check_nesting

from aiflame.attribute.timeline import intra
from aiflame.attribute.timeline.tables import SliceKind, TrackKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.folder.meta import Meta
from aiflame.render.perfetto import trace
from aiflame.render.report.timeline_block import timeline_block

OUTER, INNER, COPY = range(3)
KERNEL = Kernel("gemm", [scope(OUTER, "outer"), scope(INNER, "inner", line=7), scope(COPY, "copy in flight")], warps=4, recorded=[0, 2])
KNOWN = {"processes": PROCESSES, "threads": THREADS, "symbols": SYMBOLS, "codes": CODES, "stacks": stack(MAIN, PYMAIN, WORK)}


def cta(number: int, sm: int, at: int) -> Cta:
    """Each warp: outer all the time, inner in its second quarter, and a copy from within the inner to within the outer."""
    clock = 2 * at
    warp_spans = spans((OUTER, clock, clock + 8000), (INNER, clock + 2000, clock + 4000), (COPY, clock + 3000, clock + 6000))
    return Cta(number, sm=sm, begin=BEGIN_NS + at, end=BEGIN_NS + at + 4000, warps={0: warp_spans, 2: warp_spans})


def shown(path: Path, *frames: bytes) -> Shown:
    return Shown(timeline(profile_of(path / "p.aiflame", *frames, pid=PROCESSES[0]["pid"], **KNOWN)))


def captured(*ctas: Cta) -> bytes:
    return KERNEL.frame() + KERNEL.launch(*ctas, launch=5, begin_ns=1000)


def test_a_row_for_each_warp_of_a_multiprocessor(tmp_path: Path) -> None:
    drawn = shown(tmp_path, captured(cta(0, 3, 0), cta(1, 3, 10_000), cta(2, 4, 0), cta(3, 4, 10_000)))
    names = [name.rpartition("/")[2] for name in drawn.tracks(TrackKind.INSIDE)]
    assert names[0] == "Inside gemm, launch 5"
    assert sorted(names[1:]) == sorted(f"SM {sm} warp {warp}{beside}" for sm in (3, 4) for warp in (0, 2) for beside in ("", " beside"))
    check_nesting(drawn.timeline)


def test_scopes_lie_in_each_other_from_when_their_cta_began(tmp_path: Path) -> None:
    drawn = shown(tmp_path, captured(cta(0, 3, 0), cta(1, 3, 10_000)))
    begin = drawn.slices(SliceKind.SCOPE)[0][1]
    rows = [(name, at - begin, end - begin, depth) for name, at, end, depth in drawn.slices(SliceKind.SCOPE)[::2]]
    assert rows == [
        ("outer", 0, 4000, 0), ("inner", 1000, 2000, 1), ("copy in flight", 1500, 3000, 0),
        ("outer", 10_000, 14_000, 0), ("inner", 11_000, 12_000, 1), ("copy in flight", 11_500, 13_000, 0),
    ]  # fmt: skip


def test_ctas_that_run_at_once_have_rows_of_their_own(tmp_path: Path) -> None:
    drawn = shown(tmp_path, captured(cta(0, 3, 0), cta(1, 3, 1000)))
    names = {name.rpartition("/")[2] for name in drawn.tracks(TrackKind.INSIDE)}
    assert {"SM 3.0 warp 0", "SM 3.1 warp 0"} <= names
    check_nesting(drawn.timeline)


def test_a_slice_names_its_step_layer_and_op(tmp_path: Path) -> None:
    kernel = Kernel("gemm", [scope(0, "alone", line=7)], warps=1)
    one = Cta(9, sm=3, begin=BEGIN_NS, end=BEGIN_NS + 4000, warps={0: spans((0, 0, 8000))})
    drawn = shown(tmp_path, kernel.frame(), kernel.launch(one, begin_ns=1000))
    assert drawn.facts("alone") == {"kernel": "gemm", "where": "made.py:7", "sm": 3, "cta": 9, "warp": 0}


def test_of_very_many_records_the_first_multiprocessors_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intra, "MOST", 12)
    drawn = shown(tmp_path, captured(*(cta(sm, sm, 0) for sm in range(5))))
    assert len(drawn.slices(SliceKind.SCOPE)) == 12
    assert {name.rpartition("/")[2][:4] for name in drawn.tracks(TrackKind.INSIDE)[1:]} == {"SM 0", "SM 1"}


def test_the_last_launch_of_each_kernel_is_shown(tmp_path: Path) -> None:
    first, last = (KERNEL.launch(cta(0, 3, at), launch=number, begin_ns=1000) for number, at in ((1, 0), (2, 50_000)))
    drawn = shown(tmp_path, KERNEL.frame(), first, last)
    assert [name for name in drawn.tracks(TrackKind.INSIDE) if "launch" in name.rpartition("/")[2]] == [
        f"{drawn.tracks(TrackKind.PROCESS)[0]}/Inside gemm, launch 2"
    ]


def test_a_profile_without_records_has_no_such_track(tmp_path: Path) -> None:
    assert Shown(timeline(sealed(tmp_path / "p.aiflame", **KNOWN))).tracks(TrackKind.INSIDE) == []


def test_it_can_be_written_and_drawn(tmp_path: Path) -> None:
    drawn = shown(tmp_path, gemm(ONE_STAGE, one_stage)).timeline
    file = io.BytesIO()
    trace.write(drawn, Meta().started, file)
    assert len(file.getvalue()) > 1000
    assert timeline_block(drawn)
