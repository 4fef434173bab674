"""The folder `ranks/` of a profile: a whole profile for each rank of a parallel job, and `job`, which says whose they are.

Standard library alone. Ranks may be of several hosts that share nothing but the file system, so there are no locks here: what
appears, appears whole, and what several of them write, they write alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from .files import open_regular

FOLDER = "ranks"
FILE_NAME = "job"
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Job:
    """A run of a parallel job, as each of its ranks knows it."""

    name: str = ""
    """the same in all of its ranks, and another in other runs as far as the launcher lets us know"""
    launcher: str = ""
    size: int = 0
    """0: unknown"""
    ranks: str = ""
    """those that were to be recorded, as `write_ranks` has them; empty: all"""

    def announce(self, profile: Path) -> bool:
        """Writes `job` unless there is one: False then."""
        partial = self._written(profile)
        try:
            os.link(partial, profile / FOLDER / FILE_NAME)  # of all ways the one that never replaces and never shows half a file
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if (profile / FOLDER / FILE_NAME).exists():
                return False
            partial.replace(profile / FOLDER / FILE_NAME)
        finally:
            partial.unlink(missing_ok=True)
        return True

    def replace(self, profile: Path) -> None:
        """Writes `job` whatever was there. All ranks of a job write the same."""
        self._written(profile).replace(profile / FOLDER / FILE_NAME)

    def _written(self, profile: Path) -> Path:
        partial = profile / FOLDER / f"{FILE_NAME}.{uuid.uuid4().hex}.partial"
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return partial

    @staticmethod
    def read(profile: Path) -> Job | None:
        """None: there is none, or it is damaged."""
        with open_regular(profile / FOLDER / FILE_NAME) as file:
            data = file.read(_LARGEST) if file is not None else b""
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            told = json.loads(data)
            fields = {name: told.get(name, default) for name, default in asdict(Job()).items()}
            if all(type(value) is type(default) for value, default in zip(fields.values(), asdict(Job()).values(), strict=True)):
                return Job(**fields)
        return None


def is_ranked(profile: Path) -> bool:
    return (profile / FOLDER).is_dir()


def rank_folder(profile: Path, rank: int) -> Path:
    return profile / FOLDER / f"{rank:05}"


def rank_folders(profile: Path) -> dict[int, Path]:
    """The folders that are there, by rank."""
    with contextlib.suppress(OSError):
        found = {int(path.name): path for path in (profile / FOLDER).iterdir() if path.name.isascii() and path.name.isdecimal()}
        return {rank: found[rank] for rank in sorted(found) if found[rank].is_dir() and not found[rank].is_symlink()}
    return {}
