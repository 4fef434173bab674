"""Stacks that take longer to search than a tick's period do not keep the program from going on."""

from __future__ import annotations

from pathlib import Path

import pytest
from live import plain, processes, recorded

from built import built

pytestmark = pytest.mark.timed


def test_a_program_goes_on_where_its_stack_is_hard_to_search(tmp_path: Path) -> None:
    program = built("programs/deep_unknown")
    alone = plain([program], tmp_path)
    accompanied = recorded([program], tmp_path / "p", cpu_rate=0, wall_rate=9999)
    assert alone.status == accompanied.status == 3
    assert int(accompanied.stdout) < 2.5 * int(alone.stdout)
    (process,) = processes(tmp_path / "p")
    samples, (end,) = process.table("cpu_samples"), process.table("thread_ends").iter_rows(named=True)
    seconds = (end["end_ns"] - int(process.table("threads")["start_ns"][0])) / 1e9
    assert int(samples["weight"].sum()) / 9999 == pytest.approx(seconds, rel=0.25), "ticks that were passed over are in the next sample"
