"""Writes files at places that the user names: readable by their owner only, complete or not at all, and never through a link that another
user planted."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from aiflame.errors import AiflameError


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """The file appears when the block has ended; if the block fails, an older file stays. A pipe or device is written to directly. OSError
    if the file cannot be written."""
    path = _not_through_others(path)
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    partial = path.with_name(f".aiflame-{os.urandom(8).hex()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder for files of ours; it appears when the block has ended, or not at all. An error if something is at the path, but for an
    empty folder. OSError where it cannot be made."""
    path = _not_through_others(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise AiflameError(f"{path} is there already: choose a new folder with -o")
    partial = path.with_name(f".aiflame-{os.urandom(8).hex()}.partial")
    partial.mkdir(mode=0o700)
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _not_through_others(path: Path) -> Path:
    """The target of a link of this user's or of the system's: the target is replaced, not the link."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (os.geteuid(), 0):
            raise PermissionError(1, "it is another user's link")
    return path.resolve()
