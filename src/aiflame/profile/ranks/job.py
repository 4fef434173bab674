"""The folder `ranks/` of a profile: a whole profile for each rank of a parallel job, and `job`, which names the job.

Standard library alone. Ranks may run on several hosts that share nothing but the file system, so there are no locks here: files appear
complete, and ranks that write the same file write the same content.
"""

from __future__ import annotations

import contextlib
import json
import re

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.json_data import parse
from aiflame.values import asdict, dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "ranks"
FILE_NAME = "job"
IMPORT = "import"
"""The launcher of a job that was put together from other tools' traces."""
MOST_RANKS = 1 << 20
"""More than any job has."""

_LARGEST = 1 << 20
_MOST_VALUES = 1 << 10
_NUMBER = r"[0-9]{1,8}"


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a parallel job, as each of its ranks sees it."""

    name: str = ""
    """equal in all ranks of a run, and different in other runs, as far as the launcher shows"""
    launcher: str = ""
    size: int = 0
    """0: unknown"""
    ranks: str = ""
    """ranks that were to be recorded, as text (`write_ranks`); empty: all"""

    def announce(self, profile: Folder) -> bool:
        """Writes `job`; returns False if it exists already."""
        return profile.folder(FOLDER).write_once(FILE_NAME, self._text())

    def replace(self, profile: Folder) -> None:
        """Writes `job`, replacing an older one. All ranks of a job write the same."""
        profile.folder(FOLDER).write(FILE_NAME, self._text())

    def _text(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @staticmethod
    def read(profile: Folder) -> Job | None:
        """None if it is missing or damaged."""
        data = profile.read(FOLDER, FILE_NAME, limit=_LARGEST) or b""
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            values: Any = parse(data, most_values=_MOST_VALUES)
            fields = {name: values.get(name, default) for name, default in asdict(Job()).items()}
            if all(type(value) is type(default) for value, default in zip(fields.values(), asdict(Job()).values(), strict=True)):
                job = Job(**fields)
                return job if 0 <= job.size <= MOST_RANKS else None
        return None


def is_ranked(profile: Folder) -> bool:
    return profile.has_folder(FOLDER)


def rank_name(rank: int) -> str:
    """The name of a rank's folder."""
    return f"{rank:05}"


def rank_folders(profile: Folder) -> dict[int, Folder]:
    """The existing folders, by rank."""
    ranks = profile.folder(FOLDER)
    numbers = {int(entry.name): entry.name for entry in ranks.entries() if entry.is_folder and re.fullmatch(_NUMBER, entry.name)}
    if len(numbers) > MOST_RANKS:
        raise AiflameError(f"{ranks.path} has {len(numbers):,} ranks: {MOST_RANKS:,} are the most that are read")
    return {rank: ranks.folder(numbers[rank]) for rank in sorted(numbers)}
