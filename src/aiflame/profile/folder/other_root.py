"""Opens files below another process's root folder as that process finds them. Standard library alone.

Links there may be anybody's: the kernel takes them as that process would (`openat2`, RESOLVE_IN_ROOT), so that an absolute one, or one with
`..`, leads to no file outside of that root folder."""

from __future__ import annotations

import errno
import os
import stat
import struct

ROOT = "root"
"""The name under which the recorder passes the root folder of a program in a container to the sealer."""
_OPENAT2 = 437
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_TRIES = 3


def open_root(pid: int) -> int:
    """The root folder of a process. It can be used when the process has ended. OSError: not for us."""
    return os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def open_file(root: int, path: str) -> int:
    """A regular file by its absolute path below that root, for reading. OSError: there is none. A device is not opened, since that may have
    effects."""
    descriptor = find(root, path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(descriptor)


def find(root: int, path: str) -> int:
    """The file without opening it (O_PATH). OSError if there is none, or the kernel is older than 5.6."""
    import ctypes  # few recordings need it

    call = ctypes.CDLL(None, use_errno=True).syscall
    how = struct.pack("<QQQ", os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
    for _ in range(_TRIES):
        descriptor = int(call(_OPENAT2, root, os.fsencode(path), how, len(how)))
        if descriptor >= 0:
            return descriptor
        if ctypes.get_errno() != errno.EAGAIN:  # something was renamed meanwhile
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
