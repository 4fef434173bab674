"""Facts about a process, and the version of its code."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import polars as pl
import pytest

from aiflame.always.facts import Facts, facts_of, version_of
from aiflame.profile.folder.door import Folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


def version(script: Path) -> str:
    process = subprocess.Popen(
        [sys.executable, "-S", str(script)], cwd=script.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        return version_of(process.pid, (sys.executable, "-S", script.name))
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "src" / "run.py"
    path.parent.mkdir(parents=True)
    path.write_text("print(flush=True)\ninput()")
    return path


def test_without_a_repository_the_script_alone_tells(script: Path) -> None:
    digest = blake2b(script.read_bytes(), digest_size=4).hexdigest()
    assert version(script) == digest
    script.write_text(script.read_text() + "\n")
    assert version(script) != digest


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({"HEAD": COMMIT}, COMMIT),
        ({"HEAD": "ref: refs/heads/main", "refs/heads/main": COMMIT}, COMMIT),
        ({"HEAD": "ref: refs/heads/a/b", "packed-refs": f"# pack\n{OTHER} refs/heads/a\n{COMMIT} refs/heads/a/b\n"}, COMMIT),
        ({"HEAD": "ref: refs/heads/main"}, ""),
        ({"HEAD": "ref: ../../../../etc/passwd"}, ""),
        ({"HEAD": "ref: refs/heads/../../HEAD"}, ""),
        ({"HEAD": "\x00\xff rubbish"}, ""),
    ],
)
def test_the_commit_that_is_checked_out(script: Path, files: dict[str, str], commit: str) -> None:
    for name, text in files.items():
        path = script.parents[1] / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert version(script).split(" ")[:-1] == ([commit[:12]] if commit else [])


def test_the_commit_of_a_work_tree(script: Path) -> None:
    main = script.parents[2] / "main.git"
    tree = main / "worktrees" / "w"
    tree.mkdir(parents=True)
    (main / "refs/heads").mkdir(parents=True)
    (main / "refs/heads/w").write_text(COMMIT)
    (tree / "HEAD").write_text("ref: refs/heads/w")
    (tree / "commondir").write_text("../..")
    (script.parents[1] / ".git").write_text(f"gitdir: {tree}\n")
    assert version(script).startswith(COMMIT[:12])


def test_facts_are_kept_and_secrets_are_not(tmp_path: Path, script: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(script), "--api-key", "hunter2hunter2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "RANK": "3", "WORLD_SIZE": "8"},
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        facts = facts_of(process.pid)
        assert facts is not None
        assert "hunter2" not in facts.command and str(script) in facts.command
        assert (facts.pid, facts.rank) == (process.pid, 3)
        folder = Folder.open(tmp_path)
        facts.write(folder)
        assert Facts.read(folder) == facts
        assert (tmp_path / "facts.json").stat().st_mode & 0o077 == 0
    finally:
        process.kill()
        process.wait()
    assert facts_of(process.pid) is None


def test_a_command_that_is_not_utf_8_can_be_kept_in_a_table(script: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-S", str(script), b"caf\xe9", "naïve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        facts = facts_of(process.pid)
        assert facts is not None
        assert pl.Series([facts.command]).to_list() == [f"{sys.executable} -S {script} caf\ufffd naïve"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x"}', "\udc80", "{" * 9999])
def test_damaged_facts_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "facts.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert Facts.read(Folder.open(tmp_path)) is None
