"""memray's capture files, read by memray itself where it is installed; and its tables of comma-separated values."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from damage import damaged_copies
from memory_tables import TABLE
from whole_traces import Whole

import aiflame
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import default_metric
from aiflame.errors import AiflameError
from aiflame.exchange.readers.formats import FORMATS

GUESTS = Path(os.environ.get("AIFLAME_GUESTS", Path(__file__).resolve().parents[5] / ".guests"))
FORMAT = next(one for one in FORMATS if one.name == "memray")
PROGRAM = """
kept = []
def keep():
    for _ in range(64):
        kept.append(bytearray(1 << 20))
def churn():
    for _ in range(100):
        bytearray(64 << 10)
keep()
churn()
"""


@functools.cache
def memray() -> Path:
    command = GUESTS / "python/bin/memray"
    if not command.exists() or subprocess.run([command, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("memray is not installed among the guests")
    return command


@pytest.fixture
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{memray().parent}:{os.environ['PATH']}")
    return memray()


def captured(folder: Path, *options: str) -> Path:
    program, file = folder / "work.py", folder / f"run{len(options)}.bin"
    program.write_text(PROGRAM)
    subprocess.run([memray(), "run", "-q", *options, "-o", file, program], check=True, capture_output=True)
    return file


def by_function(tree: Tree, metric: str) -> Counter[str]:
    """Sums by the innermost Python function."""
    names = [full or name for name, full in tree.frames.select("name", "full_name").rows()]
    sums: Counter[str] = Counter()
    for node, value in enumerate(tree.values[metric].tolist()):
        at = node
        while at > 0 and names[tree.frame[at]] not in ("keep", "churn"):
            at = int(tree.parent[at])
        sums[names[tree.frame[at]] if at > 0 else "-"] += value
    return sums


@pytest.mark.parametrize("options", [(), ("--native", "--trace-python-allocators"), ("--aggregate",)], ids=["plain", "native", "aggregate"])
def test_a_capture_file_has_what_the_program_allocated(options: tuple[str, ...], on_the_path: Path, tmp_path: Path) -> None:
    file = captured(tmp_path, *options)
    profile = aiflame.open(file)
    assert default_metric(profile.store) == "live-at-peak"
    sums = {metric: by_function(profile.tree(metric), metric) for metric in ("live-at-peak", "live-at-end")}
    assert 64 << 20 <= sums["live-at-peak"]["keep"] < (64 << 20) + (8 << 10)
    assert 64 << 20 <= sums["live-at-end"]["keep"] < (64 << 20) + (8 << 10)
    assert sums["live-at-end"]["churn"] == 0
    assert 64 << 10 <= sums["live-at-peak"]["churn"] < 68 << 10
    if "--aggregate" in options:
        assert "--aggregate" in " ".join(profile.store.meta.degraded)
        return
    counts = by_function(profile.tree("allocations"), "allocations")
    assert counts["churn"] >= 100
    assert counts["keep"] >= 64
    assert by_function(profile.tree("allocated"), "allocated")["churn"] >= 100 * (64 << 10)
    stats = tmp_path / "stats.json"
    subprocess.run([on_the_path, "stats", "--json", "-o", stats, file], check=True, capture_output=True)
    theirs = json.loads(stats.read_text())
    assert profile.tree("allocations").total("allocations") == theirs["total_num_allocations"]
    assert profile.tree("allocated").total("allocated") == theirs["total_bytes_allocated"]
    assert profile.tree("live-at-peak").total("live-at-peak") == theirs["metadata"]["peak_memory"]


def test_memrays_own_table_has_the_same_sums(on_the_path: Path, tmp_path: Path) -> None:
    file, table = captured(tmp_path), tmp_path / "table.csv"
    subprocess.run([on_the_path, "transform", "csv", "-o", table, file], check=True, capture_output=True)
    whole, again = aiflame.open(file), aiflame.open(table)
    assert by_function(again.tree("size"), "size") == by_function(whole.tree("live-at-peak"), "live-at-peak")


def test_without_memray_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("memray") is not None:
        pytest.skip("memray is installed beside aiflame")
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "run.bin"
    file.write_bytes(b"memray\0\x0d\0\0\0" + bytes(100))
    with pytest.raises(AiflameError, match=r"^memray's files are read by memray itself: `pip install memray`$"):
        aiflame.open(file)


def test_a_file_of_another_version_is_an_error_with_its_format(on_the_path: Path, tmp_path: Path) -> None:
    data = captured(tmp_path).read_bytes()
    at = data.index(b"memray\0") + 7
    file = tmp_path / "old.bin"
    file.write_bytes(data[:at] + b"\x07" + data[at + 1 :])
    with pytest.raises(AiflameError, match=r"which another version of memray wrote \(its format is 7\)"):
        aiflame.open(file)


def test_damaged_capture_files_are_errors_in_a_sentence(on_the_path: Path, tmp_path: Path) -> None:
    """Few: each starts a process."""
    data = captured(tmp_path).read_bytes()
    for number, copy in enumerate(damaged_copies(data, 6)):
        Whole("memray", "run.bin", b"").survives(copy, tmp_path / str(number))


def table(text: str, folder: Path) -> Any:
    file = folder / "table.csv"
    file.write_text(text)
    return aiflame.open(file)


def test_a_table_has_sums_by_stack_and_thread(tmp_path: Path) -> None:
    profile = table(TABLE, tmp_path)
    assert by_function(profile.tree("size"), "size") == {"keep": 64 << 20, "churn": 700, "-": 4096}
    assert by_function(profile.tree("allocations"), "allocations") == {"keep": 64, "churn": 2, "-": 1}
    assert "1 lines of the table are damaged" in " ".join(profile.store.meta.degraded)
    assert "/a;b/work.py" in profile.tree("size").frames["file"].to_list()
