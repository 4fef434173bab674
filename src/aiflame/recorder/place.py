"""Where a recording is written: a profile, or in a parallel job the folder of this rank in one. Standard library alone.

`mpirun -n 4 aiflame record -- python train.py` starts four recorders. Each records alone, so that none can spoil another's; what they must
agree on (the profile's name, whose it is) each works out from the launcher's variables. A job of one rank is written as any program is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from aiflame.errors import AiflameError, harmless
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import JobRank, boot_id, start_ticks
from aiflame.profile.ranks.job import FOLDER, Job, is_ranked, rank_folders, rank_name
from aiflame.profile.ranks.rank_numbers import write_ranks
from aiflame.values import dataclass

_PATIENCE_S = 5.0
_OF_A_PROFILE = (
    "meta.json",
    "control",
    "spool",
    "tables",
    "tables.partial",
    "seal.lock",
    "seal.failed",
    "binaries",
    "jit",
    "cubins",
    "kept",
    "telemetry",
    "intra",
)
"""What lies in a profile that is not of ranks."""


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The variables that a launcher sets: the same as in `native/hooks/launcher.cpp`."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    job: tuple[str, ...]
    """The first names the job, the others its part and its attempt."""


# torchrun stands inside the others (a node each), so it is asked first.
_LAUNCHERS = (
    _Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")),
    _Launcher(
        "openmpi",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE",),
    ),
    _Launcher("mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ("PMI_JOBID",)),
    _Launcher("pmix", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "", ("PMIX_NAMESPACE",)),
    _Launcher(
        "slurm",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "",
        ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ),
)
_AROUND = (
    ("PALS_APID",),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("FLUX_JOB_ID",),
    ("PBS_JOBID",),
    ("LSB_JOBID",),
    ("COBALT_JOBID",),
    ("JOB_ID",),
)
"""What batch systems call the job that a launcher runs in, where it has no name for its own."""

_NO_NAME = ("", "none")
"""torchrun says `none` without --rdzv-id."""


@dataclass(frozen=True, slots=True)
class ProfileLocation:
    """Where this recorder writes."""

    whole: Path
    """The profile that a person opens."""
    profile: Path
    """The folder that this recorder writes: `whole`, or its rank's folder in it."""
    rank: JobRank | None = None
    speaks: bool = True
    """It is the one of the job's recorders that says what came of it."""
    job: Job | None = None

    @property
    def speaker(self) -> str:
        """The prefix of this recorder's messages."""
        return f"rank {self.rank.rank}: " if self.rank else ""

    def tell(self, note: str) -> None:
        """Prints one line for the person who started this recorder."""
        print(f"aiflame: {self.speaker}{harmless(note)}", file=sys.stderr, flush=True)

    def folder(self) -> Folder:
        """What this recorder writes, once it is made."""
        whole = Folder.open(self.whole)
        return whole if self.rank is None or self.job is None else whole.folder(FOLDER, rank_name(self.rank.rank))

    def make(self, *, overwrite: bool) -> None:
        """The folder, empty. Of ranks that come at once each makes its own."""
        if self.rank is None or self.job is None:
            self._make_whole(overwrite=overwrite)
        else:
            self._make_rank(self.rank, self.job, overwrite=overwrite)

    def first_on_host(self) -> bool:
        """Whether no other recorder of its job is at it on this host: what is of the host is recorded once. To be asked once."""
        if self.rank is None:
            return True
        try:
            ranks = Folder.open(self.whole).folder(FOLDER)
            # The descriptor stays open: who dies lets go.
            fcntl.flock(ranks.lock_file(f"host-{boot_id() or os.uname().nodename}"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return self.rank.local_rank <= 0
        return True

    def _make_whole(self, *, overwrite: bool) -> None:
        self.whole.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(self.whole):
            if not overwrite:
                raise AiflameError(f"{self.whole} exists: choose another name with -o, or replace it with --force")
            if not _is_profile(self.whole):
                raise AiflameError(f"{self.whole} exists and is no profile: choose another name with -o")
            _remove_profile(self.whole)
        Folder.new(self.whole)

    def _make_rank(self, rank: JobRank, job: Job, *, overwrite: bool) -> None:
        self.whole.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            Folder.new(self.whole)
        whole = Folder.open(self.whole)
        self._refuse_what_is_none(whole)
        if not overwrite and whole.entry("meta.json") is not None:
            raise AiflameError(f"{self.whole} exists: choose another name with -o, or replace it with --force")
        ranks = whole.make_folder(FOLDER)
        if overwrite:
            # Piece by piece: another rank may have begun to write beside them.
            for name in _OF_A_PROFILE:
                _remove(whole, name)
            _remove(ranks, rank_name(rank.rank))
        if not job.announce(whole):
            known = Job.read(whole)
            if not overwrite and (known is None or known.name != job.name or ranks.entry(rank_name(rank.rank)) is not None):
                raise AiflameError(f"{self.whole} exists, of another run: choose another name with -o, or replace it with --force")
            if overwrite and known != job:
                job.replace(whole)
        ranks.new_folder(rank_name(rank.rank))
        if self.speaks and job.size:
            # Ranks of an older, larger run are nobody's now. Lower ones are replaced by their own, or left out by their job's name.
            for number, folder in rank_folders(whole).items():
                if number >= job.size:
                    _remove(ranks, folder.name)

    def _refuse_what_is_none(self, whole: Folder) -> None:
        """Other ranks may be making or replacing it meanwhile."""
        if any(entry.name not in (*_OF_A_PROFILE, FOLDER) and not entry.name.endswith(".partial") for entry in whole.entries()):
            raise AiflameError(f"{self.whole} exists and is no profile: choose another name with -o")


def rank_here(variables: Mapping[str, str]) -> JobRank | None:
    """Where this process stands, by its launcher's variables; None: in no job."""
    for launcher in _LAUNCHERS:
        rank, size = _number(variables, launcher.rank), _number(variables, launcher.size) or 0
        # RANK alone is anybody's variable. Slurm's batch script has a rank, too, but is no step of it.
        if rank is None or not (size or launcher.name == "pmix"):
            continue
        local = _number(variables, launcher.local_rank)
        return JobRank(rank, size, -1 if local is None else local, launcher.name, _job_name(launcher, variables, size))
    return None


def place_of(output: Path | None, command: list[str], rank: JobRank | None, chosen: Collection[int] | None = None) -> ProfileLocation:
    """Where a recorder writes. `chosen`: the ranks that are recorded, None for all."""
    if rank is None or rank.size == 1:
        whole = output or _free_name(command)
        return ProfileLocation(whole, whole)
    job = Job(rank.job, rank.launcher, rank.size, write_ranks(chosen) if chosen is not None else "")
    whole = output or _shared_name(command, rank)
    first = min((number for number in chosen or (0,) if not rank.size or number < rank.size), default=0)
    return ProfileLocation(whole, whole / FOLDER / rank_name(rank.rank), rank, rank.rank == first, job)


def _free_name(command: list[str]) -> Path:
    stem = f"{_title(command)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path(f"{stem}.aiflame"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}.aiflame")
    return path


def _shared_name(command: list[str], rank: JobRank) -> Path:
    """The same in all ranks: the first name under which this rank has recorded nothing yet and no other job has anything."""
    stem = f"{_title(command)}-{_safe(rank.job)}"
    path, number = Path(f"{stem}.aiflame"), 1
    while path.exists() and not _may_join(path, rank):
        number += 1
        path = Path(f"{stem}-{number}.aiflame")
    return path


def _is_profile(path: Path) -> bool:
    try:
        profile = Folder.open(path)
    except OSError:
        return False
    return profile.has_file("meta.json") or is_ranked(profile)


def _may_join(path: Path, rank: JobRank) -> bool:
    try:
        profile = Folder.open(path)
    except OSError:
        return False
    job = Job.read(profile)
    whose = job.name == rank.job if job else profile.entry("meta.json") is None  # its first rank may be about to say
    return whose and profile.entry(FOLDER, rank_name(rank.rank)) is None


def _title(command: list[str]) -> str:
    words = [Path(word).stem for word in command[:2] if not word.startswith("-")]
    return words[1] if len(words) > 1 and words[0].startswith("python") else words[0] if words else "profile"


def _safe(name: str) -> str:
    """For the name of a file."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-40:] or "job"


def _job_name(launcher: _Launcher, variables: Mapping[str, str], size: int) -> str:
    """An identity of a job's run, where the launcher provides one."""
    if named := _joined(launcher.job, variables):
        return named
    if size and _number(variables, launcher.local_size) == size:
        return _process_of_launcher(launcher.rank)  # all are here, and of the same
    return next((named for names in _AROUND if (named := _joined(names, variables))), f"{size or 'all'}-ranks")


def _joined(names: tuple[str, ...], variables: Mapping[str, str]) -> str:
    first, *rest = (variables.get(name, "") for name in names)
    return "" if first in _NO_NAME else ".".join([first, *(text for text in rest if text not in ("", "0"))])


def _process_of_launcher(variable: str) -> str:
    """The nearest process above us that is no rank: the same for all ranks of this host, and of no other run."""
    pid = os.getppid()
    while pid > 1:
        try:
            inherited = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            above = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break  # another user's: the launcher's daemon
        if not any(entry.startswith(f"{variable}=".encode()) for entry in inherited):
            break
        pid = above
    return f"{pid}.{start_ticks(pid) or 0}"


def _number(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _remove_profile(path: Path) -> None:
    """A process that seals it in the background gives up when it finds no meta.json; until then it may put something new there."""
    above = Folder.open(path.parent)
    with contextlib.suppress(OSError, AiflameError):
        above.folder(path.name).remove("meta.json")
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            above.remove_tree(path.name)
            return
        except OSError as error:  # noqa: PERF203
            if error.errno != errno.ENOTEMPTY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _remove(folder: Folder, name: str) -> None:
    """A file or folder, if it is there; other ranks may be removing it, too."""
    with contextlib.suppress(OSError):
        folder.remove_tree(name)
