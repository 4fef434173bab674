"""The one place that opens files of a profile, for reading and for writing. Standard library alone.

A profile may come from a stranger. So its folder is held by a descriptor, and every file in it is opened from there, one component of its
path at a time. No link is followed; only folders, and regular files without a second name, are opened; new files are written under a random
name and renamed. `Folder.path` is for messages alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder import below
from aiflame.profile.folder.below import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_DEPTH_OF_SPOOL = 3
"""`ranks/00001/spool`"""


class Folder:
    """A profile, or a folder in it that need not exist. Reading a missing file gives None; writing raises OSError as `os` does."""

    def __init__(self, held: _Held, names: tuple[str, ...] = ()) -> None:
        self._held, self._names = held, names

    @staticmethod
    def open(path: str | Path) -> Folder:
        """A folder that the user named: links on the way to it are followed."""
        return Folder(_Held(os.open(path, below.FOLDER & ~os.O_NOFOLLOW), Path(path)))

    @staticmethod
    def new(path: str | Path) -> Folder:
        """A new folder that only its owner can use. FileExistsError if there is one already."""
        Path(path).mkdir(0o700)
        return Folder(_Held(below.opened_new_folder(str(path), None), Path(path)))

    @property
    def path(self) -> Path:
        """The path for messages. Never open it."""
        return self._held.path.joinpath(*self._names)

    @property
    def name(self) -> str:
        return self.path.name

    def folder(self, *names: str) -> Folder:
        return Folder(self._held, (*self._names, *(below.component(name, self.path) for name in names)))

    def held(self) -> Folder:
        """The same folder, held by a descriptor, for callers that open many files in it. FileNotFoundError if it is missing."""
        with self._opened() as here:
            return Folder(_Held(os.dup(here), self.path))

    def called(self, path: Path) -> Folder:
        """The same folder, under another name in messages."""
        with self._opened() as here:
            return Folder(_Held(os.dup(here), path))

    def status(self) -> os.stat_result:
        with self._opened() as here:
            return os.fstat(here)

    def writable(self) -> bool:
        """True if this process can create files in it: its permissions and its mount allow that."""
        with self._opened() as here:
            return os.access(".", os.W_OK | os.X_OK, dir_fd=here, effective_ids=True)

    def free_bytes(self) -> int:
        """Of its file system, for this user."""
        with self._opened() as here:
            status = os.fstatvfs(here)
        return status.f_bavail * status.f_frsize

    def entry(self, *names: str) -> Entry | None:
        *folders, name = names
        with self._reading(*names), self._opened(*folders) as here:
            return Entry(names, os.stat(below.component(name, self.path), dir_fd=here, follow_symlinks=False))
        return None

    def has_file(self, *names: str) -> bool:
        return (entry := self.entry(*names)) is not None and entry.is_file

    def has_folder(self, *names: str) -> bool:
        return (entry := self.entry(*names)) is not None and entry.is_folder

    def entries(self) -> list[Entry]:
        """Its entries, by name; none if it does not exist."""
        with self._reading(), self._opened() as here:
            return below.listed(here, (), self.path)
        return []

    def names(self) -> list[str]:
        """The names of its entries, in any order, without their status."""
        with self._reading(), self._opened() as here:
            return below.names_in(here, self.path)
        return []

    def walk(self) -> Iterator[Entry]:
        """All entries in it and in its folders; a folder comes before its entries."""
        with self._reading(), self._opened() as here:
            yield from below.walked(here, (), self.path)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.walk() if entry.is_file)

    @contextlib.contextmanager
    def file(self, *names: str) -> Iterator[BinaryIO | None]:
        """The file for reading; None when it is missing."""
        descriptor = self._file(names, os.O_RDONLY)
        if descriptor is None:
            yield None
            return
        with os.fdopen(descriptor, "rb") as file:
            yield file

    @contextlib.contextmanager
    def existing(self, *names: str) -> Iterator[BinaryIO | None]:
        """The file for reading and for writing in place; None when it is missing."""
        descriptor = self._file(names, os.O_RDWR)
        if descriptor is None:
            yield None
            return
        with os.fdopen(descriptor, "r+b") as file:
            yield file

    def read(self, *names: str, limit: int) -> bytes | None:
        """The file's content; None when it is missing. Error when it has more than `limit` bytes. Allocates no more than the content
        needs."""
        with self.file(*names) as file:
            if file is None:
                return None
            size = os.fstat(file.fileno()).st_size
            data = file.read(size + 1) if size <= limit else b""
        if max(size, len(data)) > limit:
            raise AiflameError(f"{self.path.joinpath(*names)} is larger than {limit >> 20} MB: aiflame writes no such file")
        return data

    def make_folder(self, name: str) -> Folder:
        """The folder of that name, which is made if it does not exist."""
        with contextlib.suppress(FileExistsError):
            return self.new_folder(name)
        with self._opened(name):
            return self.folder(name)

    def new_folder(self, name: str) -> Folder:
        """A new folder. FileExistsError if the name is taken."""
        with self._opened() as here:
            os.mkdir(below.component(name, self.path), 0o700, dir_fd=here)
            os.close(below.opened_new_folder(name, here))
        return self.folder(name)

    def new_file(self, name: str) -> io.FileIO:
        """A file to write piece by piece under its final name. FileExistsError if the name is taken."""
        with self._opened() as here:
            return io.FileIO(below.new_file(below.component(name, self.path), os.O_WRONLY | os.O_APPEND, here), "wb")

    @contextlib.contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        """The file appears, complete and on the disk, when the block has ended; if the block fails, an older file stays. With
        `durable=False` it does not wait for the disk."""
        with self._opened() as here:
            partial = f"{below.component(name, self.path)}.{os.urandom(8).hex()}.partial"
            descriptor = below.new_file(partial, os.O_WRONLY, here)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    yield file
                    file.flush()
                    if durable:
                        os.fsync(file.fileno())
                os.rename(partial, name, src_dir_fd=here, dst_dir_fd=here)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(partial, dir_fd=here)
                raise

    def write(self, name: str, data: bytes) -> None:
        """Replaces the file: even after a crash it has its old content or the new one."""
        with self.create(name) as file:
            file.write(data)

    def put(self, name: str, data: bytes) -> None:
        """Writes like `write`, but does not wait for the disk: a power failure may leave neither content."""
        with self.create(name, durable=False) as file:
            file.write(data)

    def write_once(self, name: str, data: bytes) -> bool:
        """False if the name is taken; otherwise the file appears complete. If several processes do this at once, one of them succeeds."""
        with self._opened() as here:
            partial = f"{below.component(name, self.path)}.{os.urandom(8).hex()}.partial"
            with os.fdopen(below.new_file(partial, os.O_WRONLY, here), "wb") as file:
                file.write(data)
            try:
                # On all hosts, a link never replaces a file and never shows half of one.
                os.link(partial, name, src_dir_fd=here, dst_dir_fd=here)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                if self.entry(name) is not None:
                    return False
                os.rename(partial, name, src_dir_fd=here, dst_dir_fd=here)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(partial, dir_fd=here)
        return True

    def rename(self, name: str, new: str) -> None:
        """Renames an entry; replaces a file, or an empty folder, that has the new name."""
        with self._opened() as here:
            os.rename(below.component(name, self.path), below.component(new, self.path), src_dir_fd=here, dst_dir_fd=here)

    def move(self, name: str, target: Folder, new: str) -> None:
        """Moves an entry into another folder of the same file system, as `new`, which is no more than an empty folder there."""
        with self._opened() as here, target._opened() as there:
            os.rename(below.component(name, self.path), below.component(new, target.path), src_dir_fd=here, dst_dir_fd=there)

    def remove(self, name: str) -> None:
        """Removes a file, if it exists; a link itself, not its target."""
        with contextlib.suppress(FileNotFoundError), self._opened() as here:
            os.unlink(below.component(name, self.path), dir_fd=here)

    def remove_tree(self, name: str) -> None:
        """Removes a folder with all its entries, or a file, if it exists; links themselves, not their targets."""
        with contextlib.suppress(FileNotFoundError), self._opened() as here:
            below.remove_below(here, (below.component(name, self.path),), self.path)

    def touch(self) -> None:
        """Sets its time of modification to now."""
        with self._opened() as here:
            os.utime(here)

    def touch_file(self, name: str) -> None:
        """Sets the time of modification of an entry to now, more exactly than the kernel does for a file that is written."""
        now = time.time_ns()
        with self._opened() as here:
            os.utime(below.component(name, self.path), ns=(now, now), dir_fd=here, follow_symlinks=False)

    def sync(self) -> None:
        """Waits until the names in the folder are on the disk."""
        with self._opened() as here:
            os.fsync(here)

    def sync_tree(self) -> None:
        """Waits until the folder and everything in it is on the disk."""
        for entry in self.walk():
            if entry.is_folder:
                self.folder(*entry.names).sync()
            else:
                with self.file(*entry.names) as file:
                    if file is not None:
                        os.fsync(file.fileno())
        self.sync()

    def lock_file(self, name: str) -> int:
        """The descriptor of a lock file, which is made if it is missing. The caller closes it."""
        with self._opened() as here:
            with contextlib.suppress(FileExistsError):
                return below.new_file(below.component(name, self.path), os.O_RDWR, here)
            descriptor = below.open_file(name, os.O_RDWR, here, self.path / name)
        if descriptor is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path / name))
        return descriptor

    def descriptor(self) -> int:
        """A descriptor of this folder. The caller closes it."""
        with self._opened() as here:
            return os.dup(here)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Holds the lock of that name, across threads and processes; waits for another holder. The kernel releases it if the holder
        dies."""
        descriptor = self.lock_file(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def refuse_other_names(self, *names: str) -> None:
        """Error when the file has a name outside its folder."""
        *folders, name = names
        with contextlib.suppress(FileNotFoundError), self._opened(*folders) as here:
            status = os.stat(below.component(name, self.path), dir_fd=here, follow_symlinks=False)
            if not below.is_all_in(here, name, status):
                below.refuse_foreign(status, self.path.joinpath(*names))

    @contextlib.contextmanager
    def _opened(self, *names: str) -> Iterator[int]:
        """The descriptor of this folder, or of the folder with this path in it."""
        here, inner = self._held.descriptor, -1
        path = self._held.path
        try:
            for name in (*self._names, *names):
                path /= name
                here = below.open_folder(below.component(name, self.path), here, path)
                if inner >= 0:
                    os.close(inner)
                inner = here
            yield here
        finally:
            if inner >= 0:
                os.close(inner)

    @contextlib.contextmanager
    def _reading(self, *names: str) -> Iterator[None]:
        """Ignores missing files; raises any other failure as an error for people."""
        try:
            yield
        except OSError as error:
            if error.errno not in _ABSENT:
                path = self.path.joinpath(*names)
                raise AiflameError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None

    def _file(self, names: tuple[str, ...], access: int) -> int | None:
        *folders, name = names
        with self._reading(*names), self._opened(*folders) as here:
            return below.open_file(below.component(name, self.path), access, here, self.path.joinpath(*names))
        return None


def refuse_foreign_entries(profile: Folder) -> None:
    """Error if the profile contains an entry that no recorder makes: a link, a device, a pipe, a socket, a file with a second name, or an
    entry of another user. (Spools in root's profile may belong to others: root's programs may have become other users.) Commands call this
    before they write into a profile for the first time."""
    owner = profile.status().st_uid
    for number, entry in enumerate(profile.walk()):
        path = profile.path.joinpath(*entry.names)
        if number >= below.MOST_ENTRIES:
            raise AiflameError(f"{profile.path} has more than {below.MOST_ENTRIES:,} files: no profile has so many, and it is not opened")
        if not entry.is_folder and (entry.status.st_nlink == 1 or not entry.is_file):
            below.refuse_foreign(entry.status, path)
        elif not entry.is_folder:  # accepted if its other names are in the profile, too
            profile.refuse_other_names(*entry.names)
        if entry.status.st_uid != owner and not (owner == 0 and "spool" in entry.names[:_DEPTH_OF_SPOOL]):
            raise AiflameError(f"{path} belongs to another user than {profile.path}: copy the profile with `cp -r` and open the copy")


class _Held:
    """A descriptor that is closed with the last folder that was opened through it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self.path = descriptor, path

    def __del__(self, close: object = os.close) -> None:  # a default argument: globals may be gone when the interpreter ends
        assert callable(close)
        close(self.descriptor)
