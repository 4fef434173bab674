"""Which folder a recorder of a rank writes: known from launchers' variables alone, and safe where ranks come at once."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import JobRank, Meta
from aiflame.profile.ranks.job import Job, rank_folders
from aiflame.profile.ranks.rank_numbers import parse_ranks, write_ranks
from aiflame.recorder.place import ProfileLocation, place_of, rank_here

COMMAND = ["python3", "train.py"]
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_NAMESPACE": "3488022529"}
SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "2"}
PMIX = {"PMIX_RANK": "3", "PMIX_NAMESPACE": "slurm.pmix.77.2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "5f2c", "TORCHELASTIC_RESTART_COUNT": "1"}


@pytest.mark.parametrize(
    ("variables", "launcher", "job"),
    [
        (MPICH, "mpich", "4-ranks"),
        (MPICH | {"PBS_JOBID": "12.pbs"}, "mpich", "12.pbs"),
        (OPENMPI, "openmpi", "3488022529"),
        (SLURM, "slurm", "77.2"),
        (SLURM | {"SLURM_RESTART_COUNT": "1"}, "slurm", "77.2.1"),
        (PMIX, "pmix", "slurm.pmix.77.2"),
        (TORCHRUN, "torchrun", "5f2c.1"),
        (TORCHRUN | SLURM, "torchrun", "5f2c.1"),
    ],
)
def test_every_launcher_gives_rank_and_job(variables: dict[str, str], launcher: str, job: str) -> None:
    assert rank_here(variables) == JobRank(3, 4, 1, launcher, job)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "3"},  # anybody's
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "77"},  # a batch script
        {"PMI_RANK": "-1", "PMI_SIZE": "4"},
        {"PMI_RANK": "three", "PMI_SIZE": "4"},
    ],
)
def test_a_process_without_a_launcher_has_no_rank(variables: dict[str, str]) -> None:
    assert rank_here(variables) is None


def test_where_all_ranks_are_here_their_launchers_process_names_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    here = rank_here(MPICH | {"MPI_LOCALNRANKS": "4"})
    assert here is not None
    pid, _, ticks = here.job.partition(".")
    assert int(pid) == os.getppid()  # which has no PMI_RANK
    assert int(ticks) > 0


def test_a_program_that_no_launcher_started_has_the_profile_to_itself(tmp_path: Path) -> None:
    place = place_of(tmp_path / "p.aiflame", COMMAND, None)
    place.make(overwrite=False)
    assert place.profile == tmp_path / "p.aiflame"
    assert place.speaks
    assert not (tmp_path / "p.aiflame" / "ranks").exists()


def test_a_job_of_one_rank_is_written_as_any_program_is(tmp_path: Path) -> None:
    place = place_of(tmp_path / "p.aiflame", COMMAND, JobRank(0, 1, 0, "mpich", "j"))
    assert place.profile == tmp_path / "p.aiflame"
    assert place.rank is None


def test_a_long_name_of_a_script_is_shortened_and_leaves_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept window's name has a rank, a time and an event behind it."""
    monkeypatch.chdir(tmp_path)
    for name in ("x" * 248, "\u00e9" * 120, "\udcff" * 240):
        for rank in (None, JobRank(0, 3, job="j" * 60)):
            place = place_of(None, ["python3", f"{name}.py"], rank)
            assert 60 < len(os.fsencode(place.whole.name)) < 180
            assert name.startswith(place.whole.name.partition("-")[0])
            place.make(overwrite=False)


def test_a_rank_that_records_nothing_removes_its_own_folder_alone(tmp_path: Path) -> None:
    made(tmp_path, 0).remove()
    two = made(tmp_path, 1)
    made(tmp_path, 2).remove()
    assert list(rank_folders(Folder.open(two.whole))) == [1]


def test_each_rank_writes_its_own_folder_and_the_first_speaks(tmp_path: Path) -> None:
    places = [made(tmp_path, rank) for rank in range(3)]
    assert [place.profile for place in places] == [tmp_path / "p.aiflame" / "ranks" / f"{rank:05}" for rank in range(3)]
    assert [place.speaks for place in places] == [True, False, False]
    assert [place.speaker for place in places] == ["rank 0: ", "rank 1: ", "rank 2: "]
    assert Job.read(Folder.open(tmp_path / "p.aiflame")) == Job("run1", "mpich", 3)


def test_the_first_of_the_ranks_that_are_recorded_speaks() -> None:
    places = [place_of(Path("p.aiflame"), COMMAND, JobRank(rank, 4, job="j"), parse_ranks("1,3,9")) for rank in (1, 3)]
    assert [place.speaks for place in places] == [True, False]
    assert places[0].job == Job("j", "", 4, "1,3,9")


def test_the_name_of_the_profile_is_the_same_in_all_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = set()
    for rank in range(3):
        place = place_of(None, COMMAND, JobRank(rank, 3, job="prterun-host/7@1"))
        place.make(overwrite=False)  # before the next one looks
        names.add(place.whole)
    assert names == {Path("train-prterun-host-7-1.aiflame")}


def test_a_second_run_of_a_job_whose_launcher_names_none_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = []
    for _ in range(2):
        places = [place_of(None, COMMAND, JobRank(rank, 2, job="2-ranks")) for rank in range(2)]
        for place in places:
            place.make(overwrite=False)
        runs.append({str(place.whole) for place in places})
    assert runs == [{"train-2-ranks.aiflame"}, {"train-2-ranks-2.aiflame"}]


def test_another_runs_profile_is_left_alone(tmp_path: Path) -> None:
    made(tmp_path, 0)
    with pytest.raises(AiflameError, match=r"p\.aiflame exists, of another run: choose another name with -o, or replace it with --force"):
        made(tmp_path, 1, job="run2")
    with pytest.raises(AiflameError, match="of another run"):
        made(tmp_path, 0)  # the same rank again
    assert list(rank_folders(Folder.open(tmp_path / "p.aiflame"))) == [0]


def test_a_profile_of_no_job_is_left_alone_and_replaced_on_demand(tmp_path: Path) -> None:
    whole = tmp_path / "p.aiflame"
    for name in ("tables", "intra"):  # captures that could not be read stay in a profile
        (whole / name).mkdir(parents=True)
    Meta().write(Folder.open(whole))
    with pytest.raises(AiflameError, match="exists"):
        made(tmp_path, 0)
    for rank in range(3):
        made(tmp_path, rank, overwrite=True)
    assert sorted(path.name for path in whole.iterdir()) == ["ranks"]
    assert list(rank_folders(Folder.open(whole))) == [0, 1, 2]


def test_a_folder_that_is_no_profile_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "p.aiflame").mkdir()
    (tmp_path / "p.aiflame" / "thesis.tex").write_text("years of work")
    with pytest.raises(AiflameError, match="is no profile"):
        made(tmp_path, 0, overwrite=True)


def test_replacing_a_larger_run_leaves_none_of_its_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        made(tmp_path, rank, overwrite=False)
    for rank in range(2):
        made(tmp_path, rank, job="run2", size=2, overwrite=True)
    assert list(rank_folders(Folder.open(tmp_path / "p.aiflame"))) == [0, 1]
    assert Job.read(Folder.open(tmp_path / "p.aiflame")) == Job("run2", "mpich", 2)


def test_a_rank_replaces_no_other_rank_of_its_job(tmp_path: Path) -> None:
    made(tmp_path, 1, job="run2", overwrite=True)
    (tmp_path / "p.aiflame" / "ranks" / "00001" / "meta.json").write_text("of this run")
    made(tmp_path, 0, job="run2", overwrite=True)
    assert (tmp_path / "p.aiflame" / "ranks" / "00001" / "meta.json").read_text() == "of this run"


@pytest.mark.parametrize("overwrite", [False, True])
def test_ranks_that_come_at_once_make_one_profile(tmp_path: Path, overwrite: bool) -> None:
    if overwrite:
        for rank in range(8):
            made(tmp_path, rank, job="older", size=8)
    with multiprocessing.get_context("fork").Pool(8) as pool:
        pool.starmap(made, [(tmp_path, rank, "run2", 8, overwrite) for rank in range(8)], chunksize=1)
    assert list(rank_folders(Folder.open(tmp_path / "p.aiflame"))) == list(range(8))
    assert Job.read(Folder.open(tmp_path / "p.aiflame")) == Job("run2", "mpich", 8)
    assert not list((tmp_path / "p.aiflame" / "ranks").glob("*.partial"))


def test_telemetry_of_a_host_is_recorded_once_on_it(tmp_path: Path) -> None:
    one, two = made(tmp_path, 0), made(tmp_path, 1)
    assert one.first_on_host()
    assert not two.first_on_host()


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for rank in range(3):
        made(tmp_path, rank)
    assert Job.read(Folder.open(tmp_path / "p.aiflame")) == Job("run1", "mpich", 3)


@pytest.mark.parametrize(("text", "ranks"), [("0", {0}), ("0,7", {0, 7}), ("2-4, 0", {0, 2, 3, 4}), ("3-3", {3})])
def test_ranks_are_written_as_numbers_and_runs(text: str, ranks: set[int]) -> None:
    assert parse_ranks(text) == ranks
    assert parse_ranks(write_ranks(ranks)) == ranks


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1;2", "0-99999999", "1,,2"])
def test_a_text_that_names_no_ranks_is_an_error(text: str) -> None:
    with pytest.raises(AiflameError, match="name ranks like 0,7 or 0-3"):
        parse_ranks(text)


def made(folder: Path, rank: int, job: str = "run1", size: int = 3, overwrite: bool = False) -> ProfileLocation:
    place = place_of(folder / "p.aiflame", COMMAND, JobRank(rank, size, rank, "mpich", job))
    place.make(overwrite=overwrite)
    return place
