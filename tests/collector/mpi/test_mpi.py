"""Calls of MPI are traced, for every MPI and language: how many, how much, with whom and for how long."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Process, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import CallBackend, CallKind
from built import built

PROGRAMS = Path(__file__).parent / "programs"
FEATURES = EVERYTHING & ~Feature.TRACE_STACKS & ~Feature.MEANING
NOBODY = 0xFFFFFFFF
AROUND = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # More ranks than cores, and nothing but this machine, where the kernel may not let processes read each other's memory.
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_plm_rsh_agent": "false",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_osc": "pt2pt",
}
FORTRAN = {"openmpi": "-lmpi_mpifh", "mpich": "-lmpichfort"}

KNOWN = {  # of mpi_calls, all ranks together: calls, bytes
    "MPI_Init": (4, 0),
    "MPI_Finalize": (4, 0),
    "MPI_Irecv": (20, 20 * 800),
    "MPI_Isend": (20, 20 * 800),
    "MPI_Waitall": (20, 0),
    "MPI_Sendrecv": (4, 4 * 12),
    "MPI_Ssend": (1, 2),
    "MPI_Mprobe": (1, 0),
    "MPI_Mrecv": (1, 2),
    "MPI_Send": (4 + 1 + 4, 16),
    "MPI_Recv": (1, 16),
    "MPI_Barrier": (12, 0),
    "MPI_Bcast": (4 + 4 + 4, 4 * 40 + 4 * 8 + 3 * 8),
    "MPI_Allreduce": (8, 4 * 4 + 4 * 40),
    "MPI_Iallreduce": (4, 4 * 4),
    "MPI_Wait": (4, 0),
    "MPI_Reduce": (4, 4 * 40),
    "MPI_Gather": (4 + 4, 4 * 4 + 3 * 4),
    "MPI_Gatherv": (4, (1 + 2 + 3 + 4) * 4),
    "MPI_Scatter": (4, 4 * 4),
    "MPI_Allgather": (4 + 4, 4 * 4 + 4 * 4),
    "MPI_Allgatherv": (4, (1 + 2 + 3 + 4) * 4),
    "MPI_Alltoall": (4, 4 * 4 * 4),
    "MPI_Alltoallv": (4, 4 * 8 * 4),
    "MPI_Alltoallw": (4, 4 * 8 * 4),
    "MPI_Reduce_scatter": (4, 4 * (1 + 2 + 3 + 4) * 4),
    "MPI_Scan": (4, 4 * 4),
    "MPI_Comm_split": (12, 0),
    "MPI_Comm_dup": (4, 0),
    "MPI_Comm_free": (4 + 4 + 1 + 8, 0),
    "MPI_Intercomm_create": (4, 0),
    "MPI_Win_create": (4, 0),
    "MPI_Win_fence": (8, 0),
    "MPI_Win_free": (4, 0),
    "MPI_Put": (4, 4 * 32),
    "MPI_Accumulate": (4, 4 * 16),
}


@dataclass(frozen=True, slots=True)
class Mpi:
    """One of the MPIs that are here."""

    name: str
    folder: Path

    def program(self, source: str, *flags: str) -> Path:
        compiler = shutil.which(f"{'mpif90' if source.endswith('90') else 'mpicc'}.{self.name}")
        if compiler is None or (source.endswith("90") and not shutil.which("gfortran")):
            pytest.skip(f"no compiler of {self.name} here: `make test` installs it")
        target = self.folder / Path(source).stem
        command = [compiler, "-w", "-O1", str(PROGRAMS / source), "-o", str(target), *flags]
        subprocess.run(command, check=True, cwd=self.folder)
        return target

    def command(self, ranks: int, *program: str | Path) -> list[str | Path]:
        launcher = shutil.which(f"mpirun.{self.name}")
        if launcher is None:
            pytest.skip(f"no {self.name} here: `make test` installs it")
        return [launcher, "-n", str(ranks), *program]


@dataclass(frozen=True, slots=True)
class Job:
    stdout: str
    calls: pl.DataFrame
    """With `rank`, and `function` and `group_name` for `name` and `group`."""
    groups: pl.DataFrame
    """With `rank_in_world`."""

    def of(self, function: str) -> pl.DataFrame:
        return self.calls.filter(pl.col("function") == function)

    def counts(self) -> Counter[str]:
        return Counter(self.calls["function"].to_list())


def job(mpi: Mpi, ranks: int, *program: str | Path, **env: str) -> Job:
    folder = mpi.folder / f"p{len(list(mpi.folder.glob('p[0-9]*')))}"
    preload = str(library().with_name("libaiflame_mpi.so"))
    outcome = recorded(mpi.command(ranks, *program), folder, features=FEATURES, env={**AROUND, **env, "LD_PRELOAD": preload})
    assert outcome.status == 0, outcome.stderr
    members = [process for process in processes(folder) if not process.table("ranks").is_empty() and not process.table("calls").is_empty()]
    members.sort(key=rank_of)
    assert [rank_of(process) for process in members] == list(range(ranks))
    groups = [process.table("groups").with_columns(rank_in_world=pl.lit(rank_of(process))) for process in members]
    return Job(outcome.stdout, pl.concat([calls_of(process) for process in members]), pl.concat(groups))


def rank_of(process: Process) -> int:
    return int(process.table("ranks")["rank"][0])


def calls_of(process: Process) -> pl.DataFrame:
    names = process.table("call_names").filter(pl.col("backend") == int(CallBackend.MPI))
    groups = process.table("groups").select(group="id", group_name="name")
    return (
        process.table("calls")
        .join(names.select(name="id", function="name"), on="name", maintain_order="left")
        .join(groups, on="group", how="left", maintain_order="left")
        .with_columns(rank=pl.lit(rank_of(process)))
    )


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mpi:
    return Mpi(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def known_job(mpi: Mpi) -> Job:
    return job(mpi, 4, mpi.program("mpi_calls.c"))


def test_every_call_is_a_row_with_its_bytes(known_job: Job) -> None:
    assert known_job.stdout == ""
    counts = known_job.calls.group_by("function").agg(pl.len(), pl.col("bytes").sum())
    assert {function: (calls, size) for function, calls, size in counts.rows()} == KNOWN


def test_a_row_says_where_it_was_called_and_when(known_job: Job) -> None:
    assert (known_job.calls["kind"] == int(CallKind.BLOCKING)).all()
    assert (known_job.calls["stack"] > 0).all() and (known_job.calls["thread"] > 0).all()
    assert (known_job.calls["end_ns"] >= known_job.calls["begin_ns"]).all()


def test_peers(known_job: Job) -> None:
    def peers(function: str) -> set[tuple[int, int]]:
        return set(known_job.of(function).select("rank", "peer").rows())

    assert peers("MPI_Isend") == peers("MPI_Sendrecv") == peers("MPI_Put") == {(0, 1), (1, 2), (2, 3), (3, 0)}
    assert peers("MPI_Irecv") == {(0, 3), (1, 0), (2, 1), (3, 2)}
    assert peers("MPI_Mprobe") == {(1, NOBODY)}  # from anyone
    assert peers("MPI_Gatherv") == {(rank, 1) for rank in range(4)}
    assert peers("MPI_Barrier") == {(rank, NOBODY) for rank in range(4)}
    assert known_job.of("MPI_Send").filter(pl.col("bytes") == 0, pl.col("failed") == 0)["peer"].to_list() == [NOBODY] * 4


def test_a_late_message_is_a_long_receive(known_job: Job) -> None:
    (took,) = known_job.of("MPI_Recv").select((pl.col("end_ns") - pl.col("begin_ns")) / 1e9).to_series()
    assert 0.3 < took < 10, "half a second; a busy machine may let the receiver wait later"


def test_a_call_that_fails_says_so(known_job: Job) -> None:
    failed = known_job.calls.filter(pl.col("failed") == 1)
    assert failed.select("function", "rank", "bytes").rows() == [("MPI_Send", rank, 0) for rank in range(4)]
    assert (failed["result"] != 0).all() and (known_job.calls.filter(pl.col("failed") == 0)["result"] == 0).all()


def test_groups(known_job: Job) -> None:
    """In the order in which they were made, with the names that they had when they were first used."""
    columns = ("name", "rank", "size", "members")
    mine = {rank: known_job.groups.filter(pl.col("rank_in_world") == rank).select(columns).rows() for rank in range(4)}
    halves = {rank: ["even", "odd"][rank % 2] for rank in range(4)}
    for rank, rows in mine.items():
        place, members = {0: 1, 1: 1, 2: 0, 3: 0}[rank], ranks_in_bytes([3, 1] if rank % 2 else [2, 0])
        assert rows[0] == ("MPI_COMM_WORLD", rank, 4, b"")
        assert rows[1:3] == [(halves[rank], place, 2, members), ("", place, 2, members)]
        assert rows[3 : len(rows) - 3] == ([("", 0, 1, ranks_in_bytes([0]))] if rank == 0 else [])
        # One of two groups: the members of the other are not recorded.
        assert [row[1:] for row in rows[-3:]] == [(place, 2, members), (place, 2, b""), (rank, 4, b"")]
        assert rows[-1][0] == "memory"
    assert set(known_job.of("MPI_Barrier")["group_name"]) == {"MPI_COMM_WORLD", "even", "odd"}
    assert set(known_job.of("MPI_Put")["group_name"]) == {"memory"}
    assert known_job.of("MPI_Comm_free")["group"].is_between(1, 1 << 30).all()
    assert set(known_job.of("MPI_Init")["group"]) == set(known_job.of("MPI_Waitall")["group"]) == {0}


def ranks_in_bytes(ranks: list[int]) -> bytes:
    return b"".join(rank.to_bytes(4, "little") for rank in ranks)


def test_requests_that_are_kept_and_polls(mpi: Mpi) -> None:
    """A poll has no stack: there may be millions."""
    recorded_job = job(mpi, 2, mpi.program("mpi_persistent.c"))
    lines = (line.split() for line in recorded_job.stdout.splitlines())
    polls = {int(rank): int(count) for rank, count in lines}
    tests = recorded_job.of("MPI_Test")
    assert {rank: tests.filter(pl.col("rank") == rank).height for rank in range(2)} == polls
    assert (tests["stack"] == 0).all()
    assert recorded_job.of("MPI_Start").height == 2 * 3
    assert recorded_job.of("MPI_Send_init")["bytes"].to_list() == recorded_job.of("MPI_Recv_init")["bytes"].to_list() == [24]


IN_FORTRAN = {"MPI_Init": 2, "MPI_Comm_dup": 2, "MPI_Allreduce": 2, "MPI_Send": 1, "MPI_Recv": 1, "MPI_Finalize": 2}


def test_fortrans_names(mpi: Mpi) -> None:
    """Names as compilers spell them; their own calls of C functions are not counted again."""
    recorded_job = job(mpi, 2, mpi.program("mpi_fortran_names.c", FORTRAN[mpi.name]))
    assert recorded_job.counts() == IN_FORTRAN | {"MPI_Barrier": 2}
    assert recorded_job.of("MPI_Send").select("rank", "peer", "bytes", "group_name").rows() == [(0, 1, 20, "MPI_COMM_WORLD")]
    assert recorded_job.of("MPI_Allreduce").select("bytes", "group_name").rows() == [(20, "")] * 2
    assert (recorded_job.calls["failed"] == 0).all()


def test_fortran_2008(mpi: Mpi) -> None:
    recorded_job = job(mpi, 2, mpi.program("mpi_fortran.f90"))
    assert recorded_job.counts() == IN_FORTRAN
    assert recorded_job.of("MPI_Recv").select("rank", "peer", "bytes", "group_name").rows() == [(1, 0, 72, "MPI_COMM_WORLD")]
    assert recorded_job.of("MPI_Allreduce")["bytes"].to_list() == [72, 72]


def test_an_mpi_that_is_visible_to_its_user_alone(mpi: Mpi) -> None:
    plugin = mpi.program("mpi_plugin.c", "-shared", "-fPIC")
    recorded_job = job(mpi, 2, built("programs/mpi_loads_it"), plugin)
    assert recorded_job.stdout == "2\n2\n"
    assert recorded_job.counts() == {"MPI_Init": 2, "MPI_Allreduce": 2, "MPI_Finalize": 2}


def test_functions_missing_in_an_mpi_stay_missing_and_unknown_ones_are_passed_on(mpi: Mpi) -> None:
    program = mpi.program("mpi_newer.c")
    alone = plain(mpi.command(2, program), mpi.folder, AROUND)
    recorded_job = job(mpi, 2, program)
    assert sorted(recorded_job.stdout.splitlines()) == sorted(alone.stdout.splitlines()) != []
    assert recorded_job.counts() == {"MPI_Init": 2, "MPI_Finalize": 2}


def test_a_name_that_is_somebody_elses_is_left_to_them(mpi: Mpi, tmp_path: Path) -> None:
    folder, alone = built("programs/libforeign.so").parent, built("programs/mpi_foreign")
    link = [f"-L{folder}", "-lforeign", f"-Wl,-rpath,{folder}"]
    recorded_job = job(mpi, 1, mpi.program("mpi_foreign.c", "-DWITH_MPI", *link))
    assert recorded_job.stdout == "2 42\n"
    assert recorded_job.counts() == {"MPI_Init": 1, "MPI_Finalize": 1}
    preload = {"LD_PRELOAD": str(library().with_name("libaiflame_mpi.so"))}
    assert recorded([alone], tmp_path / "p", features=FEATURES, env=preload).stdout == "2 42\n"
    (process,) = processes(tmp_path / "p")
    assert process.table("calls").is_empty()


def test_a_call_that_is_left_by_a_jump_does_not_end_tracing(mpi: Mpi) -> None:
    recorded_job = job(mpi, 1, mpi.program("mpi_leaves.c"))
    assert recorded_job.stdout == ""
    assert recorded_job.counts() == {"MPI_Init": 1, "MPI_Barrier": 1, "MPI_Finalize": 1}


def test_mpi4py(mpi: Mpi) -> None:
    """With an MPI of version 4 it calls functions with large counts, which one of version 3 does not have."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("no mpi4py here: `make test` installs it")
    program = mpi.command(4, sys.executable, PROGRAMS / "mpi_python.py")
    recorded_job = job(mpi, 4, *program[3:], MPI4PY_MPIABI=mpi.name, LD_LIBRARY_PATH=str(with_the_common_name(mpi)))
    plain_names = recorded_job.calls.with_columns(pl.col("function").str.strip_suffix("_c"))
    counts = plain_names.group_by("function").agg(pl.len(), pl.col("bytes").sum())
    counted = {function: (calls, size) for function, calls, size in counts.rows()}
    pickled = counted["MPI_Mrecv"][1]
    assert counted == {
        "MPI_Init_thread": (4, 0),
        "MPI_Sendrecv": (12, 12 * 400),
        "MPI_Isend": (4, pickled),
        "MPI_Mprobe": (4, 0),
        "MPI_Mrecv": (4, pickled),
        "MPI_Wait": (4, 0),
        "MPI_Allreduce": (4, 4 * 400),
        "MPI_Bcast": (4, 4 * 400),
        "MPI_Allgatherv": (4, 40),
        "MPI_Comm_split": (4, 0),
        "MPI_Barrier": (4, 0),
        "MPI_Comm_free": (4, 0),
        "MPI_Finalize": (4, 0),
    }
    assert ("MPI_Sendrecv_c" in recorded_job.counts()) == (mpi.name == "mpich")
    assert set(recorded_job.of("MPI_Barrier").select("rank", "group_name").rows()) == {(rank, f"pair {rank // 2}") for rank in range(4)}


def with_the_common_name(mpi: Mpi) -> Path:
    """A folder with the library as all MPIs of its family name it; Debian names MPICH's otherwise."""
    folder = mpi.folder / "common"
    folder.mkdir(exist_ok=True)
    if mpi.name == "mpich" and not (folder / "libmpi.so.12").exists():
        cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        lines = [line for line in cache.splitlines() if "libmpich.so.12 " in line]
        if not lines:
            pytest.skip("no libmpich.so.12 here")
        (folder / "libmpi.so.12").symlink_to(lines[0].rpartition("=> ")[2])
    return folder
