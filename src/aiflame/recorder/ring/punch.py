"""Frees the disk blocks of a part of a file, which then reads as zeros; the file keeps its length."""

from __future__ import annotations

import ctypes
import errno
import os

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_PAGE = 4096
_TRIAL = "trial"


def punch(descriptor: int, begin: int, end: int) -> None:
    """OSError if the file system cannot do it."""
    result = _fallocate()(descriptor, _KEEP_SIZE | _PUNCH_HOLE, begin, end - begin)
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def refuse_without_holes(folder: Folder) -> None:
    """Tries it on a file of two pages."""
    try:
        folder.put(_TRIAL, b"\1" * 2 * _PAGE)
        with folder.existing(_TRIAL) as file:
            if file is not None:
                punch(file.fileno(), 0, _PAGE)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        raise AiflameError(
            f"--last: the file system of {folder.path.parent} cannot free parts of a file: choose a place on ext4, xfs, btrfs or tmpfs"
            " with -o"
        ) from None
    finally:
        folder.remove(_TRIAL)


def _fallocate() -> ctypes._NamedFuncPointer:
    if not _loaded:
        function = ctypes.CDLL(None, use_errno=True).fallocate
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
        _loaded.append(function)
    return _loaded[0]


_loaded: list[ctypes._NamedFuncPointer] = []
