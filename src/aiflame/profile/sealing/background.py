"""The error of a process that failed to seal a profile, usually in the background. The next command reports it, and seals."""

from __future__ import annotations

import contextlib
import fcntl

from aiflame.errors import AiflameError, harmless
from aiflame.profile.folder.door import Folder
from aiflame.profile.ranks.job import rank_folders
from aiflame.profile.sealing.aside import is_ours
from aiflame.profile.sealing.seal import LOCK, is_sealed

FAILED = "seal.failed"
_LONGEST = 500
"""Characters of a reason; its file may have four times as many bytes."""


def leave_failure(profile: Folder, error: BaseException) -> None:
    """Stores the reason. If the profile is gone or the disk is full, it cannot be stored, and this does nothing."""
    reason = harmless(str(error) if isinstance(error, AiflameError) else f"{type(error).__name__}: {error}")[:_LONGEST]
    with contextlib.suppress(OSError, AiflameError):
        if profile.entry("meta.json") is not None:
            profile.put(FAILED, reason.encode())


def take_failures(profile: Folder) -> list[str]:
    """A line for each recorder's profile that an earlier process could not seal. Each is returned once."""
    folders = [profile, *rank_folders(profile).values()]
    return [f"sealing {folder.path} {why}: it is done again now" for folder in folders if (why := _taken(folder))]


def _taken(folder: Folder) -> str:
    if not is_ours(folder):
        return ""
    reason = folder.read(FAILED, limit=4 * _LONGEST)
    if reason is not None:
        folder.remove(FAILED)
        return f"in the background failed ({harmless(reason.decode('utf-8', 'replace'))})"
    share = _killed_at(folder)
    return f"was broken off at {share:.0%} (was it killed, or memory short?)" if share is not None else ""


def _killed_at(folder: Folder) -> float | None:
    """The progress of a process that died while it sealed; None if there was none."""
    if is_sealed(folder) or (text := folder.read(LOCK, limit=4096)) is None:
        return None
    with folder.file(LOCK) as file, contextlib.suppress(ValueError):
        if file is None:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # closing the file releases it
        except OSError:
            return None
        return min(max(float(text or b"0"), 0.0), 1.0)
    return None
