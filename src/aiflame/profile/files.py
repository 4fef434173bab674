"""Files of a profile are opened and replaced with care: a profile may come from a crash, another machine or a stranger."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import AiflameError


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO | None]:
    """The file for reading; None when there is none, or when it is a link, a pipe or a folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise AiflameError(f"cannot read {path}: permission denied") from None
        yield None
        return
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        yield file


def replace_file(path: Path, data: bytes) -> None:
    """The file has its old content or the new one, whatever happens meanwhile."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        sync(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """What was written to a file, or into a folder, is on the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        sync(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Held by one at a time, across threads and processes; waits. A holder that dies lets go."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
