"""The options of `--intra`, from the command line to the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiflame.errors import AiflameError
from aiflame.intra.catalog import known
from aiflame.intra.runtime import Settings
from aiflame.recorder.intra import PRESETS, VARIABLE, parse_intra
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.run import intra_variables


def test_passes_and_kernels() -> None:
    assert json.loads(parse_intra("loads, mma,loads:^attn_(fwd|bwd)$")) == {
        "passes": ["loads", "mma"],
        "files": [],
        "kernels": "^attn_(fwd|bwd)$",
    }
    assert parse_intra("") == ""


def test_more_options() -> None:
    asked = json.loads(parse_intra("auto", warps="4,0,4", launches=3, memory=1 << 20))
    assert (asked["warps"], asked["launches"], asked["memory"]) == ([0, 4], 3, 1 << 20)
    options: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in asked.items()}
    Settings(**options)


def test_a_file_brings_passes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    asked = json.loads(parse_intra("mine.py,loads,my-pass"))
    assert asked["files"] == [str(tmp_path / "mine.py")] and asked["passes"] == ["loads", "my-pass"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lods", "'lods' is none of auto, loads"),
        ("nowhere.py", "there is no file nowhere.py"),
        ("loads:(", "no regular expression"),
        ("lo ads", "is none of"),
    ],
)
def test_options_that_contradict_are_refused_before_anything_runs(text: str, why: str) -> None:
    with pytest.raises(AiflameError, match=why.replace("(", r"\(")):
        parse_intra(text)


@pytest.mark.parametrize("without", ["meaning", "python"])
def test_it_needs_python_of_ours_in_the_program(without: str) -> None:
    options: dict[str, Any] = {"intra": parse_intra("auto"), without: False}
    with pytest.raises(AiflameError, match="--no-meaning"):
        RecordOptions(**options)


def test_warps_are_numbers() -> None:
    with pytest.raises(AiflameError, match="numbers of warps"):
        parse_intra("auto", warps="first")


def test_the_recorder_knows_the_presets_by_name() -> None:
    """The recorder must not import modules that run in programs."""
    from aiflame.intra import presets

    assert set(PRESETS) == {name for name, one in known().items() if one.__module__ in (presets.__name__, "aiflame.intra.auto")}


def test_the_programs_variables_are_set_only_when_asked() -> None:
    assert intra_variables(RecordOptions()) == {}
    asked = parse_intra("auto")
    assert intra_variables(RecordOptions(intra=asked)) == {VARIABLE: asked, "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0"}
