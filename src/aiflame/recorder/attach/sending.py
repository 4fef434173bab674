"""Brings the collector into a program that sees other files than we do: one in a container, or below another root folder.

No path leads from there to the collector and to the profile, and we follow none of its paths. Five descriptors are sent into it instead:

- the control page of the profile;
- the folders of the spool and of device code, each as a mount of its own (`open_tree`): from there `..` leads nowhere, so that the program
  gets no other folder of ours;
- the collector, and our Python for programs, as files in memory that nobody can change any more (sealed): the program may run as the user
  who owns the installed ones, and must not get these.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import FILE_NAME as CONTROL_FILE
from aiflame.profile.folder.door import Folder
from aiflame.profile.spool.living import SPOOL
from aiflame.recorder.attach.injector import Injector
from aiflame.recorder.attach.ptrace import Registers, Seized

DEVICE_CODE = "cubins"
LOADED = "libaiflame.so"
"""The name by which the dynamic linker knows the collector that it has loaded from memory (DT_SONAME)."""
MAPPED = b"/memfd:aiflame/libaiflame.so"
"""Its path in the list of a process's mappings."""
_IN_MEMORY = "aiflame/libaiflame.so"
_NOT_SENT_PYTHON = ("bootstrap", "intra", "moments", "refusals", "__init__")
_ALLOW_EXECUTION = 0x10
"""MFD_EXEC, of Linux 6.3."""
_OPEN_TREE, _GET_DESCRIPTOR = 428, 438
_CLONE, _CLOSE_ON_EXEC, _NO_PATH = 1, 0o2000000, 0x1000
_SOCKET_PAIR, _RECEIVE, _CLOSE, _MUNMAP = 53, 47, 3, 11
_UNIX, _DATAGRAM, _DONT_WAIT, _CLOSE_RECEIVED = 1, 2, 0x40, 0x40000000
_PAGE = 4096
_MESSAGE, _VECTOR, _BYTE, _CONTROL, _ROOM = 64, 128, 160, 256, 256
"""Places in a page of the program's memory: `struct msghdr`, its `struct iovec`, the byte that is received, and the descriptors."""
_PATIENCE_S = 2.0
_APART = """import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10020000) != 0:
    sys.exit(1)
tree = libc.syscall(428, -100, os.fsencode(sys.argv[1]), 1 | 0o2000000)
if tree < 0:
    sys.exit(1)
with socket.socket(fileno=int(sys.argv[2])) as end:
    socket.send_fds(end, (b".",), (tree,))
"""
"""For users who may not mount: in namespaces of its own a process of theirs may."""
_libc = ctypes.CDLL(None, use_errno=True)


class Parcel:
    """The descriptors for the programs of one recording."""

    def __init__(self, library: Path, profile: Folder) -> None:
        """AiflameError if the system does not let us make them."""
        self._profile = profile.path
        with contextlib.ExitStack() as opened:
            self._descriptors = []
            for descriptor in _opened(library, profile):
                opened.callback(os.close, descriptor)
                self._descriptors.append(descriptor)
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    def library(self) -> int:
        """A descriptor of the collector, which the caller closes."""
        return os.dup(self._descriptors[-1])

    def send(self, injector: Injector, pid: int, pidfd: int) -> Sent:
        """Brings them into the program. AiflameError: the system keeps them from it."""
        numbers = injector.trace(lambda: _send(injector, pid, pidfd, self._descriptors))
        return Sent(injector, pid, numbers, self._descriptors, self._profile)


class Sent:
    """Descriptors that a program has got."""

    def __init__(self, injector: Injector, pid: int, numbers: Sequence[int], files: Sequence[int], profile: Path) -> None:
        self._injector, self._pid = injector, pid
        status = [os.fstat(file) for file in files]
        self._files = [(number, one.st_dev, one.st_ino) for number, one in zip(numbers, status, strict=True)]
        self.argument = b"".join(b"%d:%d:%d," % file for file in self._files) + os.fsencode(profile)
        """As `native/spool/reach.hpp` takes them."""

    @property
    def library(self) -> Path:
        return Path(f"/proc/self/fd/{self._files[-1][0]}")

    def are_closed(self) -> bool:
        """True if the program has closed the spool that the collector took over: it may close every descriptor that it finds."""
        _, device, inode = self._files[1]
        with contextlib.suppress(OSError):
            return not any(_identity(self._pid, int(entry.name)) == (device, inode) for entry in Path(f"/proc/{self._pid}/fd").iterdir())
        return False

    def take_back(self) -> None:
        """Closes those that the collector has not taken over."""
        with contextlib.suppress(AiflameError, OSError):
            left = [number for number, device, inode in self._files if _identity(self._pid, number) == (device, inode)]
            if left:
                self._injector.trace(lambda: self._close(left))

    def _close(self, numbers: Sequence[int]) -> int:
        inject = self._injector
        until = time.monotonic() + _PATIENCE_S
        return inject.borrow(lambda thread, registers, _: _close(inject, thread, registers, numbers), until, safe=False)


def _opened(library: Path, profile: Folder) -> list[int]:
    opened: list[int] = []
    try:
        with profile.existing(CONTROL_FILE) as control:
            if control is None:
                raise FileNotFoundError(errno.ENOENT, "its profile is gone")
            opened.append(os.dup(control.fileno()))
        opened.append(_alone(profile.folder(SPOOL)))
        opened.append(_alone(profile.make_folder(DEVICE_CODE)))
        opened.append(_sealed("aiflame/target", _python(), execute=False))
        opened.append(_sealed(_IN_MEMORY, library.read_bytes(), execute=True))
    except OSError as error:
        for descriptor in opened:
            os.close(descriptor)
        reason = (error.strerror or str(error)).lower()
        raise AiflameError(f"the collector cannot be made ready for a program in a container ({reason}): run aiflame in there") from None
    return opened


def _alone(folder: Folder) -> int:
    """A folder as a mount of its own. OSError: not here."""
    there = folder.descriptor()
    tree = -1
    try:
        tree = int(_libc.syscall(_OPEN_TREE, there, b"", _CLONE | _CLOSE_ON_EXEC | _NO_PATH))
        if tree < 0:
            if ctypes.get_errno() != errno.EPERM:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            tree = _alone_by_another(folder.path)
        if not os.path.samestat(os.fstat(tree), os.fstat(there)):
            raise OSError(errno.ESTALE, "its profile has been replaced")
        return os.open(f"/proc/self/fd/{tree}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(there)
        if tree >= 0:
            os.close(tree)


def _alone_by_another(folder: Path) -> int:
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, other:
        command = [sys.executable, "-I", "-c", _APART, str(folder), str(other.fileno())]
        if subprocess.run(command, pass_fds=[other.fileno()], capture_output=True, timeout=10, check=False).returncode:
            raise OSError(errno.EPERM, "only root may, where users have no namespaces of their own")
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_DONTWAIT)
        return descriptors[0]


def _python() -> bytes:
    """The text of `target/bootstrap.py`, with those of the modules that it loads before it, on its first line."""
    folder = Path(__file__).parents[2] / "target"
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")) if path.stem not in _NOT_SENT_PYTHON}
    return f"SOURCES = {sources!r}; ".encode() + (folder / "bootstrap.py").read_bytes()


def _sealed(name: str, content: bytes, *, execute: bool) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        descriptor = os.memfd_create(name, flags | (_ALLOW_EXECUTION if execute else 0))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        descriptor = os.memfd_create(name, flags)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _send(injector: Injector, pid: int, pidfd: int, descriptors: Sequence[int]) -> list[int]:
    """The numbers that they have in the program. One of its threads makes a pair of sockets, and receives from one; we take the other."""
    numbers: list[int] = []

    def receive(thread: Seized, registers: Registers, _: int) -> int:
        numbers.clear()
        page = injector.map(thread, registers, _PAGE)
        try:
            kind = _DATAGRAM | _CLOSE_ON_EXEC
            if injector.system_call(thread, registers, _SOCKET_PAIR, _UNIX, kind, 0, page) != 0:
                raise AiflameError(f"process {pid} may not make a socket, by which it would get the collector: record it from its start")
            pair = struct.unpack("<2i", injector.read(page, 8))
            try:
                _send_to(pid, thread.tid, pidfd, pair[1], descriptors)
                injector.write(page + _VECTOR, struct.pack("<QQ", page + _BYTE, 1))
                message = struct.pack("<QQQQQQQ", 0, 0, page + _VECTOR, 1, page + _CONTROL, _ROOM, 0)
                injector.write(page + _MESSAGE, message)
                flags = _DONT_WAIT | _CLOSE_RECEIVED
                received = injector.system_call(thread, registers, _RECEIVE, pair[0], page + _MESSAGE, flags)
                numbers.extend(_numbers(injector.read(page + _CONTROL, _ROOM)) if received == 1 else ())
                if len(numbers) != len(descriptors):
                    _close(injector, thread, registers, numbers)
                    raise AiflameError(f"process {pid} may not get the collector's files: a rule of this system (SELinux, say) forbids it")
            finally:
                _close(injector, thread, registers, pair)
        finally:
            injector.system_call(thread, registers, _MUNMAP, page, _PAGE)
        return 0

    injector.borrow(receive, time.monotonic() + _PATIENCE_S, safe=False)
    return numbers


def _send_to(pid: int, tid: int, pidfd: int, number: int, descriptors: Sequence[int]) -> None:
    """Sends to the socket that has this number in the thread."""
    end = int(_libc.syscall(_GET_DESCRIPTOR, pidfd, number, 0))
    if end < 0:
        reason = os.strerror(ctypes.get_errno()).lower()
        raise AiflameError(f"process {pid} cannot be sent the collector's files ({reason}): run aiflame in its container")
    with socket.socket(fileno=end) as ours:
        there = Path(f"/proc/{pid}/task/{tid}/fd/{number}").stat()
        if not os.path.samestat(there, os.fstat(end)):
            raise AiflameError(f"process {pid} has threads with files of their own: record it from its start")
        socket.send_fds(ours, [b"."], list(descriptors), socket.MSG_DONTWAIT)


def _numbers(control: bytes) -> list[int]:
    """The descriptors in a `struct cmsghdr`."""
    length, level, kind = struct.unpack_from("<Qii", control)
    if level != socket.SOL_SOCKET or kind != socket.SCM_RIGHTS or not 16 <= length <= _ROOM:
        return []
    numbers = array.array("i")
    numbers.frombytes(control[16 : 16 + (length - 16) // 4 * 4])
    return numbers.tolist()


def _close(injector: Injector, thread: Seized, registers: Registers, numbers: Sequence[int]) -> int:
    for number in numbers:
        injector.system_call(thread, registers, _CLOSE, number)
    return 0


def _identity(pid: int, number: int) -> tuple[int, int] | None:
    try:
        status = Path(f"/proc/{pid}/fd/{number}").stat()
    except OSError:
        return None
    return None if stat.S_ISSOCK(status.st_mode) else (status.st_dev, status.st_ino)
