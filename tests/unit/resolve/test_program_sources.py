"""The text of the program's files is kept when its profile is completed."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from profiles import python, sealed, this_machine
from small_program import symbol

from aiflame.profile.schema.kinds import Kind
from aiflame.resolve import program_sources
from aiflame.resolve.files.outside import NOTHING
from aiflame.resolve.program_sources import keep_sources


def files(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {number}\n")
        os.utime(path, (1, 1))
    return paths


def symbols_of(*paths: Path | str) -> pl.DataFrame:
    rows = [symbol(python(code, 4), "f", Kind.PYTHON, module="", file=str(path), line=3) for code, path in enumerate(paths, 1)]
    return pl.DataFrame(rows)


def kept(folder: Path, symbols: pl.DataFrame, *, allowed: bool = True) -> list[str]:
    profile = sealed(folder / "p.aiflame")
    keep_sources(profile, symbols, this_machine() if allowed else NOTHING)
    return profile.table("sources")["path"].to_list() if profile.has("sources") else []


def test_files_of_sampled_code_are_kept(tmp_path: Path) -> None:
    own, library = files(tmp_path, "app/train.py", "lib/python3.11/site-packages/torch/x.py")
    assert kept(tmp_path, symbols_of(library, own, "<string>", tmp_path / "gone.py")) == [str(own), str(library)]


def test_a_file_that_changed_since_is_not(tmp_path: Path) -> None:
    (own,) = files(tmp_path, "app/train.py")
    os.utime(own)
    profile = sealed(tmp_path / "p.aiflame")
    keep_sources(profile, symbols_of(own), this_machine(began=1.5))
    assert not profile.has("sources")


def test_nothing_is_read_for_a_strangers_profile(tmp_path: Path) -> None:
    (own,) = files(tmp_path, "app/train.py")
    assert kept(tmp_path, symbols_of(own), allowed=False) == []


def test_where_room_is_short_the_programs_own_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, own = files(tmp_path, "lib/python3.11/site-packages/torch/x.py", "app/train.py")
    monkeypatch.setattr(program_sources, "ROOM", 12)
    assert kept(tmp_path, symbols_of(library, library, own)) == [str(own)]


def test_texts_of_kernels_stay(tmp_path: Path) -> None:
    (own,) = files(tmp_path, "app/train.py")
    profile = sealed(tmp_path / "p.aiflame", sources=[{"path": "/app/kernel.cu", "text": "k"}])
    keep_sources(profile, symbols_of(own), this_machine())
    assert profile.table("sources").rows() == [("/app/kernel.cu", "k"), (str(own), "text of 0\n")]
