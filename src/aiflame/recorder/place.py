"""Chooses the folder of a recording: a profile, or in a parallel job this rank's folder in one. Standard library alone.

`mpirun -n 4 aiflame record -- python train.py` starts four recorders. Each records on its own, so that none can damage another's data. They
must agree on the profile's name and on the job that owns it, which each derives from the launcher's variables. A job of one rank is
recorded like any other program.
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
_LONGEST_NAME = 120
"""Bytes. File systems take names of 255."""
_PROFILE_ENTRIES = (
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
"""Files and folders of a profile without ranks."""


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The variables that a launcher sets: the same as in `native/records/launcher.cpp`."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    job: tuple[str, ...]
    """Variables: the first one names the job, the others a part of it and its attempt."""


# torchrun may run inside the others (one for each node), so its variables are checked first.
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
"""Variables in which batch systems name the job around a launcher, for launchers that do not name it."""

_NO_NAME = ("", "none")
"""torchrun says `none` without --rdzv-id."""


@dataclass(frozen=True, slots=True)
class ProfileLocation:
    """The location to which this recorder writes."""

    whole: Path
    """The profile that users open."""
    profile: Path
    """The folder to which this recorder writes: `whole`, or its rank's folder in it."""
    rank: JobRank | None = None
    speaks: bool = True
    """True for the one recorder of a job that prints the summary."""
    job: Job | None = None

    @property
    def speaker(self) -> str:
        """The prefix of this recorder's messages."""
        return f"rank {self.rank.rank}: " if self.rank else ""

    def tell(self, note: str) -> None:
        """Prints one line for the user who started this recorder. Where nobody reads it any more, the recorder goes on."""
        if sys.stderr is None:  # it was closed when we were started; print would write to the program's stdout
            return
        with contextlib.suppress(OSError):
            print(f"aiflame: {self.speaker}{harmless(note)}", file=sys.stderr, flush=True)

    def is_gone(self) -> bool:
        """True if somebody, like the program itself, has removed or renamed the folder after `make`."""
        return not os.path.lexists(self.profile)

    def failure(self, error: Exception) -> str:
        """One line about an error of the recorder while or after the program runs."""
        if self.is_gone():
            return f"{self.profile} was removed while the program ran: nothing is kept of this recording"
        return f"a part of the recording failed: {getattr(error, 'strerror', None) or error or type(error).__name__}"

    def folder(self) -> Folder:
        """The folder to which this recorder writes, after `make`."""
        whole = Folder.open(self.whole)
        return whole if self.rank is None or self.profile == self.whole else whole.folder(FOLDER, rank_name(self.rank.rank))

    def make(self, *, overwrite: bool) -> None:
        """Makes the empty folder. Ranks may do this at the same time: each makes its own."""
        if self.rank is None or self.job is None:
            self._make_whole(overwrite=overwrite)
        else:
            self._make_rank(self.rank, self.job, overwrite=overwrite)

    def remove(self) -> None:
        """Removes this recorder's folder again, in which nothing was recorded."""
        with contextlib.suppress(OSError, AiflameError):
            remove_profile(self.profile)

    def first_on_host(self) -> bool:
        """True for one recorder of the job on each host: it records the data of the whole host. Call it only once, since it takes a
        lock."""
        if self.rank is None:
            return True
        try:
            ranks = Folder.open(self.whole).folder(FOLDER)
            # The descriptor stays open: the lock is released when this process ends.
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
            remove_profile(self.whole)
        Folder.new(self.whole)

    def _make_rank(self, rank: JobRank, job: Job, *, overwrite: bool) -> None:
        self.whole.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            Folder.new(self.whole)
        whole = Folder.open(self.whole)
        self._refuse_other_files(whole)
        if not overwrite and whole.entry("meta.json") is not None:
            raise AiflameError(f"{self.whole} exists: choose another name with -o, or replace it with --force")
        ranks = whole.make_folder(FOLDER)
        if overwrite:
            # One by one: another rank may already write beside them.
            for name in _PROFILE_ENTRIES:
                _remove(whole, name)
            _remove(ranks, rank_name(rank.rank))
        if not job.announce(whole):
            announced = Job.read(whole)
            if not overwrite and (announced is None or announced.name != job.name or ranks.entry(rank_name(rank.rank)) is not None):
                raise AiflameError(f"{self.whole} exists, of another run: choose another name with -o, or replace it with --force")
            if overwrite and announced != job:
                job.replace(whole)
        ranks.new_folder(rank_name(rank.rank))
        if self.speaks and job.size:
            # Removes higher ranks of an older, larger run. Lower ranks replace their own folders, or are skipped for their job's name.
            for number, folder in rank_folders(whole).items():
                if number >= job.size:
                    _remove(ranks, folder.name)

    def _refuse_other_files(self, whole: Folder) -> None:
        """Raises if the folder has files that belong to no profile. Other ranks may be making or replacing the profile meanwhile."""
        if any(entry.name not in (*_PROFILE_ENTRIES, FOLDER) and not entry.name.endswith(".partial") for entry in whole.entries()):
            raise AiflameError(f"{self.whole} exists and is no profile: choose another name with -o")


def rank_here(variables: Mapping[str, str], pid: int = 0) -> JobRank | None:
    """The rank of a process, from its launcher's variables; None outside of a job. `pid`: which process, 0: this one."""
    for launcher in _LAUNCHERS:
        rank, size = _number(variables, launcher.rank), _number(variables, launcher.size) or 0
        # RANK alone may come from any program. Slurm's batch script has a rank, too, but is not a step of the job.
        if rank is None or not (size or launcher.name == "pmix"):
            continue
        local = _number(variables, launcher.local_rank)
        return JobRank(rank, size, -1 if local is None else local, launcher.name, _job_name(launcher, variables, size, pid))
    return None


def place_of(output: Path | None, command: list[str], rank: JobRank | None, chosen: Collection[int] | None = None) -> ProfileLocation:
    """The location of a recording. `chosen`: the ranks that are recorded, None for all."""
    if rank is None or rank.size == 1:
        whole = _reachable(output or _free_name(command))
        return ProfileLocation(whole, whole)
    job = Job(rank.job, rank.launcher, rank.size, write_ranks(chosen) if chosen is not None else "")
    whole = _reachable(output or _shared_name(command, rank))
    first = min((number for number in chosen or (0,) if not rank.size or number < rank.size), default=0)
    return ProfileLocation(whole, whole / FOLDER / rank_name(rank.rank), rank, rank.rank == first, job)


def _reachable(path: Path) -> Path:
    """The path. AiflameError if it is relative to a folder that is gone."""
    if not path.is_absolute():
        try:
            Path.cwd()
        except OSError:
            raise AiflameError("the current folder was removed: name a place for the profile, like -o /tmp/p.aiflame") from None
    return path


def _free_name(command: list[str]) -> Path:
    stem = f"{_title(command)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path(f"{stem}.aiflame"), 1
    while os.path.lexists(path):
        number += 1
        path = Path(f"{stem}-{number}.aiflame")
    return path


def _shared_name(command: list[str], rank: JobRank) -> Path:
    """The first name under which neither this rank nor another job has recorded; all ranks choose the same."""
    stem = f"{_title(command)}-{_safe(rank.job)}"
    path, number = Path(f"{stem}.aiflame"), 1
    while os.path.lexists(path) and not _may_join(path, rank):
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
    whose = job.name == rank.job if job else profile.entry("meta.json") is None  # the other job's first rank may be about to write it
    return whose and profile.entry(FOLDER, rank_name(rank.rank)) is None


def _title(command: list[str]) -> str:
    words = [Path(word).stem for word in command[:2] if not word.startswith("-")]
    return shortened(words[1] if len(words) > 1 and words[0].startswith("python") else words[0] if words else "profile")


def shortened(name: str) -> str:
    """The beginning of a name that leaves room for a time, an event and an ending in the name of a file."""
    while len(os.fsencode(name)) > _LONGEST_NAME:
        name = name[:-1]
    return name


def _safe(name: str) -> str:
    """The name with only characters that suit a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-40:] or "job"


def _job_name(launcher: _Launcher, variables: Mapping[str, str], size: int, pid: int) -> str:
    """An identity for a run of a job, if the launcher provides one."""
    if named := _joined(launcher.job, variables):
        return named
    if size and _number(variables, launcher.local_size) == size:
        return _process_of_launcher(launcher.rank, pid or os.getpid())  # all ranks run on this host, under the same launcher
    return next((named for names in _AROUND if (named := _joined(names, variables))), f"{size or 'all'}-ranks")


def _joined(names: tuple[str, ...], variables: Mapping[str, str]) -> str:
    first, *more = (variables.get(name, "") for name in names)
    return "" if first in _NO_NAME else ".".join([first, *(text for text in more if text not in ("", "0"))])


def _process_of_launcher(variable: str, pid: int) -> str:
    """The nearest ancestor of a process that is not a rank: the same for all ranks on this host, and different in another run."""
    pid = _parent(pid)
    while pid > 1:
        try:
            inherited = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            above = _parent(pid)
        except OSError:
            break  # a process of another user: the launcher's daemon
        if not above or not any(entry.startswith(f"{variable}=".encode()) for entry in inherited):
            break
        pid = above
    return f"{pid}.{start_ticks(pid) or 0}"


def _parent(pid: int) -> int:
    """0 if it is not to be read."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _number(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def remove_profile(path: Path) -> None:
    """Removes a profile. A background process that seals it gives up when meta.json is gone; until then it may still write files."""
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
    """Removes a file or folder, if it exists; other ranks may be removing it, too."""
    with contextlib.suppress(OSError):
        folder.remove_tree(name)
