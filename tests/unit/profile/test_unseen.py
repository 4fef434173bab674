"""CPU time without samples is never passed over in silence."""

from __future__ import annotations

import pytest
from spool_files import ProcessFiles, ended_profile

from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.sealing.unseen import CpuTime, notes_on

S = 1_000_000_000


def test_a_process_without_samples_is_named_with_its_reason(tmp_path):
    silent, idle = ProcessFiles(pid=7, start_ns=1, command="busy\0--now"), ProcessFiles(pid=8, start_ns=2, command="idle")
    silent.add("process_ends", end_ns=9 * S, cpu_ns=2 * S)
    silent.add("notes", text="its timers cannot be made")
    idle.add("process_ends", end_ns=9 * S, cpu_ns=S // 10)
    meta = Meta(ended=Clocks(1, 1, 1), options={"cpu_rate": 199})
    notes = open_profile(ended_profile(tmp_path / "a.aiflame", silent, idle, meta=meta)).notes()
    assert "process 7 (busy --now) used 2.0 s of CPU time and has no sample: its timers cannot be made" in notes
    assert not [note for note in notes if "process 8" in note]


def test_without_a_known_reason_that_is_said():
    (note,) = notes_on([CpuTime(pid=7, command="a", cpu_ns=S)], 0, 199, None)
    assert (
        note
        == "process 7 (a) used 1.0 s of CPU time and has no sample: none came, and nothing says why (are its signals or timers blocked?)"
    )


def test_time_of_processes_without_records_is_noted():
    (note,) = notes_on([CpuTime(pid=7, command="sh", cpu_ns=S, samples=200, sampled_ns=S)], 5 * S, 199, None)
    assert note.startswith("3.9 s of CPU time were used by processes that aiflame could not record")


@pytest.mark.parametrize(
    ("process", "total", "rate"),
    [
        (CpuTime(pid=7, cpu_ns=S), 5 * S, 0),
        (CpuTime(pid=7, cpu_ns=S // 4), S // 2, 199),
        (CpuTime(pid=7, cpu_ns=S, samples=200, sampled_ns=S), S + S // 10, 199),
    ],
    ids=["no samples were asked for", "it used little", "all was seen"],
)
def test_a_setting_as_expected_needs_no_note(process: CpuTime, total: int, rate: int):
    assert notes_on([process], total, rate, None) == []


def test_a_process_that_is_hardly_seen_is_noted() -> None:
    """Its short threads have samples, and its main thread none."""
    hardly = CpuTime(pid=7, command="work", cpu_ns=800_000_000, sampled_ns=14_000_000, samples=3)
    (note,) = notes_on([hardly], 800_000_000, 199, None)
    assert note.startswith("process 7 (work) used 0.8 s of CPU time and has samples for 0.01 s alone: ")
    assert notes_on([hardly], 800_000_000, 199, "recording stopped early: no space left") == []
    assert notes_on([CpuTime(pid=7, command="work", cpu_ns=800_000_000, sampled_ns=700_000_000, samples=140)], 800_000_000, 199, None) == []
