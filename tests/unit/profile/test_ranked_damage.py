"""Ranks that are damaged, empty, or left by another run; the others are read, and the notes name them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from profiles import sealed
from rank_folders import Row, a_rank, four, job, opened, rank_folder, working

import aiflame
from aiflame.attribute.trees.build import tree
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import JobRank, Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.ranks.job import FOLDER, Job


def test_a_rank_that_cannot_be_read_spoils_no_other(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    (rank_folder(path, 1) / "tables" / "index.json").write_text("nonsense")
    cut = next((rank_folder(path, 2) / "tables" / "cpu_samples").iterdir())
    cut.write_bytes(cut.read_bytes()[:-1])
    shutil.rmtree(rank_folder(path, 3))
    store = opened(path)
    assert store.table("ranks")["rank"].to_list() == [0]
    notes = "\n".join(store.notes())
    assert "rank 1 cannot be read, and is left out" in notes
    assert "rank 2 cannot be read, and is left out" in notes
    assert "rank 3 left nothing behind" in notes
    assert len(store.notes()) == 3
    assert not store.meta.complete
    assert aiflame.open(path).tree("cpu-time").total("cpu-time") == 1000


def test_a_table_that_is_damaged_in_one_rank_is_missing_in_that_rank_alone(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    damaged = next((rank_folder(path, 2) / "tables" / "cpu_samples").iterdir())
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(bytes(content))
    store = opened(path)
    assert sorted(store.table("cpu_samples")["process"].unique().to_list()) == [0, 1, 3]
    assert any("rank 2: its table 'cpu_samples' is left out" in note for note in store.notes())
    assert store.table("processes")["process"].to_list() == [0, 1, 2, 3]


def test_a_rank_that_recorded_nothing_is_noted(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), size=2)
    (rank_folder(path, 1) / "spool").mkdir(parents=True)
    a_rank(1, size=2).with_notes("nothing was recorded: …").write(Folder.open(rank_folder(path, 1)))
    store = opened(path)
    assert store.notes() == ["rank 1 recorded nothing", "rank 1: nothing was recorded: …"]
    assert aiflame.open(path).tree("cpu-time").total("cpu-time") == 1000


def test_a_rank_whose_recorder_died_is_sealed_when_the_whole_is_opened(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), size=2)
    (rank_folder(path, 1) / "spool" / "42.100").mkdir(parents=True)
    a_rank(1, size=2, complete=False, exit_status=None).write(Folder.open(rank_folder(path, 1)))
    store = opened(path)
    assert (rank_folder(path, 1) / "tables").is_dir()
    assert not store.meta.complete
    assert store.meta.exit_status is None


def test_ranks_left_by_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), a_rank(1), size=2)
    older = Meta(job_rank=JobRank(3, 4, 3, "mpich", "older"))
    sealed(rank_folder(path, 3), older, **working(ticks=100))
    store = opened(path)
    assert [part.rank for part in store.parts] == [0, 1]
    assert store.notes() == []


def test_ranks_that_were_not_to_be_recorded_are_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "p.aiflame"
    sealed(rank_folder(path, 2), a_rank(2), **working())
    Job("run1", "mpich", 4, "2").announce(Folder.open(path))
    assert opened(path).notes() == []
    assert opened(path).meta.complete


def test_without_one_rank_that_can_be_read_it_is_an_error(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    for rank in range(4):
        (rank_folder(path, rank) / "tables" / "index.json").write_text("nonsense")
    with pytest.raises(AiflameError, match=r"no rank of it can be read: rank 0 cannot be read"):
        open_profile(path)
    (tmp_path / "empty.aiflame" / FOLDER).mkdir(parents=True)
    with pytest.raises(AiflameError, match="no rank of it can be read"):
        open_profile(tmp_path / "empty.aiflame")


def test_notes_name_their_ranks_unless_they_concern_all(tmp_path: Path) -> None:
    metas = [a_rank(rank).with_notes("of all", *(["of some"] if rank in (0, 1, 3) else [])) for rank in range(4)]
    assert opened(job(tmp_path / "p.aiflame", *metas)).notes() == ["of all", "ranks 0-1,3: of some"]


def test_the_worst_end_of_all_ranks_is_that_of_the_whole(tmp_path: Path) -> None:
    metas = [a_rank(rank, exit_status=-9 if rank == 2 else 0) for rank in range(4)]
    assert opened(job(tmp_path / "p.aiflame", *metas)).meta.exit_status == -9


def test_damaged_numbers_of_processes_are_no_rank(tmp_path: Path) -> None:
    rows: dict[str, list[Row]] = {**working(), "ranks": [{"process": 77, "rank": 1, "size": 4, "launcher": "mpich"}]}
    assert tree(aiflame.open(sealed(tmp_path / "p.aiflame", None, **rows).path).store, "cpu-time").total("cpu-time") == 1000
