"""Claims that prove that this user recorded a profile on this machine. Only such a profile may, when it is completed, have files outside of
it read. Standard library alone.

A profile's host and user can be forged. So the recorder writes a claim into the user's state folder, which nobody else can write: the
profile's random id, and the folder that it was recorded into. Before aiflame completes a profile, it checks for a claim on that very
folder. A claim is withdrawn when its profile is complete, so that it proves nothing about a profile that other people may have changed
since.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.user_state import state_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ID = r"[0-9a-f]{32}"
_CLAIMS = "recordings"
_LARGEST = 4096
_OLDEST_S = 90 * 86_400
"""Older claims, of profiles that nobody has opened since, are removed."""

_of_this_process: dict[str, dict[str, object]] = {}
"""Claims of this process. They are valid even where no state folder can be written."""


def new_id() -> str:
    return os.urandom(16).hex()


def claim(profile: Folder, identity: str) -> bool:
    """Claims that this process records into the folder `profile`. False if only this process can prove it, because no state folder can be
    written."""
    try:
        written = _identity(profile)
    except OSError:
        return False
    _of_this_process[identity] = written
    try:
        with _claims(make=True) as folder:
            descriptor = os.open(identity, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(written, file)
    except OSError:
        return False
    return True


def proven(profile: Folder, identity: str) -> bool:
    """True if this user recorded into this very folder on this machine, and the profile has not been complete since."""
    if not re.fullmatch(_ID, identity):
        return False
    try:
        here = _identity(profile)
        if identity in _of_this_process:
            return _of_this_process[identity] == here
        with _claims() as folder:
            descriptor = os.open(identity, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    return False
                return bool(json.loads(file.read(_LARGEST)) == here)
    except (OSError, ValueError, RecursionError):
        return False


def withdraw(identity: str) -> None:
    """Removes the claim of a profile that is complete and needs nothing more from this machine."""
    if not re.fullmatch(_ID, identity):
        return
    _of_this_process.pop(identity, None)
    with contextlib.suppress(OSError), _claims() as folder:
        os.unlink(identity, dir_fd=folder)
        _forget_old(folder)


def _identity(profile: Folder) -> dict[str, object]:
    """Identifies the folder itself: a copy has another identity, a renamed folder keeps it. Error when other users could write into it."""
    status = profile.status()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError("others can write into the profile")
    return {"host": os.uname().nodename, "device": status.st_dev, "inode": status.st_ino}


@contextlib.contextmanager
def _claims(*, make: bool = False) -> Iterator[int]:
    """The descriptor of the folder with the claims. OSError if none belongs to this user alone."""
    path = state_path()
    if make:
        path.mkdir(0o700, parents=True, exist_ok=True)
    held = _own(os.open(path, _FOLDER))
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(_CLAIMS, 0o700, dir_fd=held)
        claims = _own(os.open(_CLAIMS, _FOLDER, dir_fd=held))
        try:
            yield claims
        finally:
            os.close(claims)
    finally:
        os.close(held)


def _own(descriptor: int) -> int:
    """Makes the folder accessible to its owner alone; error if somebody else owns it."""
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise PermissionError("the state folder belongs to somebody else")
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _forget_old(folder: int) -> None:
    oldest = time.time() - _OLDEST_S
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < oldest:
                os.unlink(name, dir_fd=folder)
