"""The library that sees allocations is preloaded beside the collector with --host-memory, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiflame.recorder.hooks import environment
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.run import features


@pytest.mark.parametrize(
    ("every", "others", "loaded"),
    [
        (0, "", ["libaiflame.so"]),
        (4096, "", ["libaiflame.so", "libaiflame_memory.so"]),
        (4096, "libjemalloc.so", ["libaiflame.so", "libaiflame_memory.so", "libjemalloc.so"]),
    ],
)
def test_it_lies_between_the_collector_and_an_allocator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, others: str, loaded: list[str]
) -> None:
    (tmp_path / "libaiflame.so").touch()
    monkeypatch.setenv("AIFLAME_LIBRARY", str(tmp_path / "libaiflame.so"))
    base = {"LD_PRELOAD": others} if others else {}
    variables, notes = environment(base, Path("/p.aiflame"), features(RecordOptions(host_memory_every=every, trace="")), ["./program"])
    assert notes == []
    assert [Path(entry).name for entry in variables["LD_PRELOAD"].split(":")] == loaded
