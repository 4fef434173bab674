"""Opens, lists and removes one name at a time in a folder that is given by its descriptor; `door.py` is built on it. Standard library
alone.

No link is followed. The kind of a file is checked before it is opened and again afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.values import dataclass

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_ENTRIES = 4_000_000
_DEEPEST = 16
"""The deepest nesting of folders; a profile of ranks has five levels."""
_LONGEST_NAME = 255
"""In bytes: Linux's NAME_MAX."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a folder, as it was when it was listed; a link itself, not its target."""

    names: tuple[str, ...]
    """The entry's path below the listed folder."""
    status: os.stat_result

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def size(self) -> int:
        return self.status.st_size


def component(name: str, folder: Path) -> str:
    """A name that is safe to use as one component of a path. Error for any other: a profile may contain any text as a name."""
    try:
        plain = 0 < len(os.fsencode(name)) <= _LONGEST_NAME and not {"/", "\0"} & set(name) and name not in (".", "..")
    except UnicodeEncodeError:
        plain = False
    if not plain:
        raise AiflameError(f"{folder} names {name[:_LONGEST_NAME]!r}, which cannot be a file in it: the profile is damaged")
    return name


def open_folder(name: str, parent: int, path: Path) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                refuse_foreign(status, path)
        raise


def open_file(name: str, access: int, folder: int, path: Path) -> int | None:
    """None if it is a folder. The file's kind is checked before it is opened, because opening a device may have effects."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return None
    if not is_all_in(folder, name, status):
        refuse_foreign(status, path)
    descriptor = os.open(name, access | _FILE, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not is_all_in(folder, name, status):
            refuse_foreign(status, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_all_in(folder: int, name: str, status: os.stat_result) -> bool:
    """True for a regular file that has no name outside the folder. (`write_once` gives a file a second name for a moment, which stays if
    the process is killed then.)"""
    if not stat.S_ISREG(status.st_mode):
        return False
    if status.st_nlink <= 1 or _names_in(folder, status) >= status.st_nlink:
        return True
    now = os.stat(name, dir_fd=folder, follow_symlinks=False)  # the second name may have been removed meanwhile
    return now.st_ino == status.st_ino and stat.S_ISREG(now.st_mode) and now.st_nlink <= 1


def _names_in(folder: int, status: os.stat_result) -> int:
    own = os.open(".", FOLDER, dir_fd=folder)
    try:
        return sum(entry.inode() == status.st_ino for entry in os.scandir(own))  # a folder never spans two file systems
    finally:
        os.close(own)


def refuse_foreign(status: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise AiflameError(f"{path} is a symbolic link, which no profile has: nothing was opened through it; delete the link")
    if not stat.S_ISREG(status.st_mode):
        raise AiflameError(f"{path} is {_kind(status.st_mode)}, which no profile has: it was left alone; delete it")
    if status.st_nlink > 1:
        raise AiflameError(f"{path} has a second name elsewhere (a hard link): copy the profile with `cp -r` and open the copy")


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")


def opened_new_folder(name: str, parent: int | None) -> int:
    """Opens a folder that was just made, and sets its permissions so that only its owner can use it, whatever the umask."""
    try:
        descriptor = os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:  # the umask took the owner's own permissions
        os.chmod(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, FOLDER, dir_fd=parent)
    os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o777 | 0o700)
    return descriptor


def new_file(name: str, access: int, folder: int) -> int:
    descriptor = os.open(name, access | _NEW, 0o600, dir_fd=folder)
    os.fchmod(descriptor, 0o600)
    return descriptor


def listed(folder: int, names: tuple[str, ...], path: Path) -> list[Entry]:
    if len(names) >= _DEEPEST:
        raise AiflameError(f"{path.joinpath(*names)}: folders lie in one another deeper than in any profile")
    entries = []
    for name in sorted(names_in(folder, path.joinpath(*names))):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            entries.append(Entry((*names, name), os.stat(name, dir_fd=folder, follow_symlinks=False)))
    return entries


def names_in(folder: int, path: Path) -> list[str]:
    own = os.open(".", FOLDER, dir_fd=folder)  # the position of a listing belongs to the open file, which other threads may be reading, too
    try:
        names = [entry.name for entry in itertools.islice(os.scandir(own), MOST_ENTRIES + 1)]
    finally:
        os.close(own)
    if len(names) > MOST_ENTRIES:
        raise AiflameError(f"{path} has more than {MOST_ENTRIES:,} files: no folder of a profile has so many")
    return names


def walked(folder: int, names: tuple[str, ...], path: Path) -> Iterator[Entry]:
    for entry in listed(folder, names, path):
        yield entry
        if not entry.is_folder:
            continue
        try:
            inner = open_folder(entry.name, folder, path.joinpath(*entry.names))
        except FileNotFoundError:  # removed meanwhile
            continue
        try:
            yield from walked(inner, entry.names, path)
        finally:
            os.close(inner)


def remove_below(parent: int, names: tuple[str, ...], path: Path) -> None:
    try:
        os.unlink(names[-1], dir_fd=parent)
        return
    except IsADirectoryError:
        inner = open_folder(names[-1], parent, path.joinpath(*names))
    try:
        for entry in listed(inner, names, path):
            with contextlib.suppress(FileNotFoundError):
                remove_below(inner, entry.names, path)
    finally:
        os.close(inner)
    os.rmdir(names[-1], dir_fd=parent)
