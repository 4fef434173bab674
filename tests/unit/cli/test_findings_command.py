"""`aiflame findings`: the text fits the terminal, the JSON keeps a stranger's text as it was, and bad input is one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from calling import run_aiflame
from sampled_kernels import Sampled, line, profile
from small_program import SYMBOLS

BIDI = "\u202e"
KERNEL = f"evil\x1b[31m'$(reboot)`{BIDI}"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One kernel that waits for memory at one line, with a name of a stranger's."""
    path = tmp_path_factory.mktemp("findings") / "p.aiflame"
    waits = {"long_scoreboard": 90, "selected": 10}
    stalled = profile(path, Sampled(KERNEL, [(0, "LDG", line(7), waits), (16, "EXIT", line(9), {"wait": 5})]))
    stalled.write_table("symbols", pl.DataFrame(SYMBOLS))  # resolved: nothing is looked up
    return path


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_the_text_names_line_stall_fix_and_evidence_and_fits(recorded: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = run_aiflame("findings", str(recorded))
    assert (said.status, said.err) == (0, "")
    words = " ".join(said.out.split())
    for fact in ("/src/attn.py:7", "long_scoreboard", "fix", "aiflame annotate", "hot-"):
        assert fact in words
    assert max(map(len, said.out.splitlines())) <= columns


def test_a_strangers_name_controls_neither_terminal_nor_shell(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = run_aiflame("findings", str(recorded)).out
    assert "\x1b" not in said and BIDI not in said
    assert "'\"'\"'$(reboot)`" in said


def test_json_has_the_name_as_it_is(recorded: Path) -> None:
    said = run_aiflame("findings", str(recorded), "--json").out
    assert "\x1b" not in said
    first = json.loads(said)["findings"][0]
    assert (first["kernel"], first["stall"], first["place"]) == (KERNEL, "long_scoreboard", "/src/attn.py:7")


def test_an_imported_file_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "stacks.txt").write_text("main;work 3\n")
    assert run_aiflame("findings", str(tmp_path / "stacks.txt")).out.startswith("stacks.txt: collapsed stacks")


def test_rows_bound_the_list(recorded: Path) -> None:
    assert len(json.loads(run_aiflame("findings", str(recorded), "-n", "1", "--json").out)["findings"]) == 1


def test_a_profile_that_was_damaged_or_is_newer_is_one_sentence(recorded: Path, tmp_path: Path) -> None:
    cut = shutil.copytree(recorded, tmp_path / "cut.aiflame")
    table = next((cut / "tables/kernels").iterdir())
    table.write_bytes(table.read_bytes()[:100])
    said = run_aiflame("findings", str(cut))
    assert (said.status, said.out, said.err.count("\n")) == (1, "", 1)
    assert "is damaged" in said.err and "record again" in said.err

    newer = shutil.copytree(recorded, tmp_path / "newer.aiflame")
    meta = json.loads((newer / "meta.json").read_text())
    (newer / "meta.json").write_text(json.dumps({**meta, "format": 99}))
    said = run_aiflame("findings", str(newer))
    assert said.status == 1 and "written by a newer aiflame" in said.err
