"""The libraries that stand in for a runtime are preloaded beside the collector where its calls are asked for, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiflame.recorder.hooks import environment
from aiflame.recorder.tracing import BACKENDS, DEFAULT, asked_for, trace_features

NATIVE = Path(__file__).parents[3] / "native/stand_in"


@pytest.fixture(autouse=True)
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "libaiflame.so").touch()
    monkeypatch.setenv("AIFLAME_LIBRARY", str(tmp_path / "libaiflame.so"))
    return tmp_path


def preloaded(trace: str, base: dict[str, str] | None = None) -> list[str]:
    variables, notes = environment(
        base or {}, Path("/p.aiflame"), trace_features(trace, stacks=False), ["./program"], asked=asked_for(trace)
    )
    assert notes == []
    return [Path(entry).name for entry in variables["LD_PRELOAD"].split(":")]


def test_each_where_it_is_asked_for() -> None:
    assert preloaded("ze") == ["libaiflame.so", "libaiflame_level_zero.so"]
    assert preloaded("hip") == ["libaiflame.so", "libaiflame_hip.so"]
    assert preloaded(DEFAULT) == preloaded("opencl") == preloaded("") == ["libaiflame.so"]
    assert {"libaiflame_level_zero.so", "libaiflame_hip.so"} < set(preloaded(",".join(BACKENDS)))


def test_preloaded_libraries_stay_behind_ours() -> None:
    assert preloaded("hip", {"LD_PRELOAD": "a.so"}) == ["libaiflame.so", "libaiflame_hip.so", "a.so"]


@pytest.mark.parametrize(("listed", "prefix", "function"), [("level_zero.inc", "ze", "zeInit"), ("hip.inc", "hip", "hipLaunchKernel")])
def test_names_are_the_runtimes_in_order_and_once(listed: str, prefix: str, function: str) -> None:
    """The collector searches them."""
    names = re.findall(r"^NAME\((\w+)\)$", (NATIVE / listed).read_text(), re.MULTILINE)
    assert function in names and all(name.startswith(prefix) for name in names)
    assert names == sorted(set(names))


def test_metrics_of_level_zero_are_never_asked_for_in_the_program() -> None:
    """Where metrics are not permitted, `ZET_ENABLE_METRICS=1` makes the program's zeInit fail."""
    for trace in (*BACKENDS, ",".join(BACKENDS)):
        variables, _ = environment({}, Path("/p.aiflame"), trace_features(trace, stacks=True), ["./program"], asked=asked_for(trace))
        assert not [name for name in variables if name.startswith(("ZET_", "ZE_"))]
