"""Recorded data are readable only by their owner, and a sealed profile has none of the secrets of command lines and environments."""

from __future__ import annotations

import gzip
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from recording import Recorder

import aiflame

CANARIES = ("c4n4ryArgument77", "c4n4ryPassword78", "c4n4ryUser79", "c4n4ryShell80", "c4n4ryVariable81", "c4n4ryChild82", "c4n4ryHeader83")
ARGUMENT, PASSWORD, USER, SHELL, VARIABLE, CHILD, HEADER = CANARIES

PROGRAM = f"""
import os, subprocess, sys, time, threading
def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
busy(0.3)
if len(sys.argv) > 1:
    child = [sys.executable, "-c", "sum(range(3_000_000))", "--api-key={CHILD}", "-H", "Authorization: Bearer {HEADER}"]
    subprocess.run(child, check=True)
    subprocess.run("MYSQL_PWD={SHELL} true --secret {SHELL}; true", shell=True, check=True)
"""


def test_folders_and_files_of_a_recording_are_its_owners_alone(record: Recorder, tmp_path: Path) -> None:
    """Command lines stand in the spool as they were."""
    (tmp_path / "a.py").write_text(PROGRAM)
    before = os.umask(0)
    try:
        run = record(sys.executable, "a.py")
    finally:
        os.umask(before)
    modes = {path: path.lstat() for path in [run.path, *run.path.rglob("*")]}
    assert any(path.parent.parent.name == "spool" for path in modes)
    for path, status in modes.items():
        assert stat.S_IMODE(status.st_mode) == (0o700 if stat.S_ISDIR(status.st_mode) else 0o600), path


@pytest.fixture(scope="module")
def secretive() -> dict[str, str]:
    return {"API_KEY": VARIABLE, "AWS_SECRET_ACCESS_KEY": VARIABLE, "DATABASE_URL": f"postgres://u:{VARIABLE}@host/d"}


def test_a_sealed_profile_has_no_secret_of_a_command_line_or_of_the_environment(
    record_and_seal: Recorder, tmp_path: Path, secretive: dict[str, str]
) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    arguments = [f"--token={ARGUMENT}", "--password", PASSWORD, f"https://user:{USER}@example.invalid/x"]
    run = record_and_seal(sys.executable, "a.py", *arguments, env=secretive)
    assert run.status == 0, run.stderr
    profile = aiflame.open(run.path)
    assert profile.table("processes")["command"].str.contains("--token=").any(), "the command lines are there"
    assert not (run.path / "spool").exists()
    texts = {name: text for name, text in everything(run.path) if not name.startswith("tables/sources/")}
    assert len(texts) > 10, "all but the program's own text, in which they are written out"
    leaks = {(name, canary) for name, text in texts.items() for canary in CANARIES if canary.encode() in text}
    assert leaks == set()
    assert not any(canary in run.stderr + run.stdout for canary in CANARIES)


def everything(profile: Path) -> Iterator[tuple[str, bytes]]:
    """The bytes of each file, and its unpacked content."""
    for path in filter(Path.is_file, profile.rglob("*")):
        name, data = str(path.relative_to(profile)), path.read_bytes()
        yield name, data
        if path.suffix == ".parquet":
            frame = pl.read_parquet(data)
            texts = [frame[column].cast(pl.Binary) for column, kind in frame.schema.items() if kind in (pl.String, pl.Binary)]
            yield f"{name}: texts", b"\n".join(text for column in texts for text in column.unique().drop_nulls().to_list())
        elif path.suffix == ".gz":
            yield f"{name}: unpacked", gzip.decompress(data)


def test_the_search_looks_into_packed_files(tmp_path: Path) -> None:
    pl.DataFrame({"a": [f"{CHILD} x" * 100], "b": [f"{HEADER}".encode()]}).write_parquet(tmp_path / "t.parquet", compression="zstd")
    (tmp_path / "c.gz").write_bytes(gzip.compress(SHELL.encode()))
    texts = dict(everything(tmp_path))
    assert CHILD.encode() in texts["t.parquet: texts"] and HEADER.encode() in texts["t.parquet: texts"]
    assert SHELL.encode() in texts["c.gz: unpacked"]


@pytest.mark.parametrize("options", [(), ("--no-sources",)], ids=["by default", "--no-sources"])
def test_text_of_the_program_is_kept_unless_it_is_asked_not_to_be(record: Recorder, tmp_path: Path, options: tuple[str, ...]) -> None:
    program = tmp_path / "program.py"
    program.write_text("total = 0\nfor number in range(9_000_000):\n    total += number  # PLANTED\n")
    os.utime(program, (1, 1))
    profile = record(sys.executable, program, options=options).profile().store
    texts = dict(profile.table("sources").rows()) if profile.has("sources") else {}
    assert (str(program) in texts) == (not options)
    assert not (options and texts)
