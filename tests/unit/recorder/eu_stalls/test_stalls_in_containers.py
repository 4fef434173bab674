"""A program in a container on a machine with an Intel GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiflame.recorder.eu_stalls import devices
from aiflame.recorder.numbers import Numbers
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import Watch, prepare
from aiflame.recorder.view import View


@pytest.mark.parametrize(("namespace", "count"), [("pid:[1]", 1), ("", 0)])
def test_a_note_says_that_stalls_are_not_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: str, count: int) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: [devices.Gpu(node=tmp_path / "node", address="0000:03:00.0")])
    place, options = ProfileLocation(tmp_path / "p", tmp_path / "p"), RecordOptions(telemetry_ms=0)
    page, meta = prepare(place, options, ["python"], overwrite=False)
    notes: list[str] = []
    watch = Watch(place, page, notes, options, meta, view=View(Numbers(namespace)))
    watch()
    watch()
    watch.finish(sealed_soon=True)
    page.close()
    assert len([note for note in notes if note.startswith("stalls of Intel GPUs are not sampled")]) == count
