"""Code of this machine for a recording of `perf`, which names the files that ran, and the build id of each.

A stranger's recording could name private files. So a file is used only if it is an ELF file with the very build id that the recording has,
which nobody knows without the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from aiflame.profile.folder.home import home
from aiflame.resolve.files.code_files import VDSO, Code, code_with_build_id
from aiflame.resolve.files.elf_file import notes
from aiflame.resolve.files.outside import Outside

LARGEST = 64 << 20
"""Bytes of a table of the kernel's symbols, or of a map of code."""
_KERNEL_NOTES, _KERNEL_SYMBOLS = Path("/sys/kernel/notes"), Path("/proc/kallsyms")
_SHORTEST_ID = 8
_SLACK_S = 2.0
_OUTSIDE = Outside(allowed=True)


def code_of(path: str, build_id: bytes) -> Code:
    """The file of that path, or of perf's cache, that has the build id; its debug file, if there is one."""
    if len(build_id) < _SHORTEST_ID or not (path.startswith(("/", VDSO))):
        return Code(None, None)
    return code_with_build_id(path, build_id, _OUTSIDE, [place / name for place in _cached(build_id) for name in ("elf", "vdso", "")])


def kernel_symbols(build_id: bytes, recording: Path) -> bytes:
    """The lines of `kallsyms` of the kernel: beside the recording (`perf record --kcore`), in perf's cache, or of the kernel that runs
    here, if it has the build id. Empty: none is there."""
    given = _content(recording.parent / "kcore_dir" / "kallsyms")
    if given or len(build_id) < _SHORTEST_ID:
        return given
    for place in _cached(build_id):
        if cached := _content(place / "kallsyms"):
            return cached
    running = next((content for name, kind, content in notes(_content(_KERNEL_NOTES)) if name == b"GNU\0" and kind == 3), b"")
    return _content(_KERNEL_SYMBOLS) if running == build_id else b""


def map_of(pid: int, host: str, began: float, ended: float) -> bytes:
    """`/tmp/perf-PID.map` of a process that was recorded on this machine: this user's, and written while it was recorded, since numbers of
    processes are used again. `began`, `ended`: of the recording, in seconds since 1970."""
    if host != os.uname().nodename or not began:
        return b""
    paths = [Path(f"/tmp/perf-{pid}.map")]
    return _OUTSIDE.written_by_process(paths, began - _SLACK_S, LARGEST, until=ended + _SLACK_S) or b""


def _cached(build_id: bytes) -> Iterator[Path]:
    """Folders of perf's cache."""
    name = build_id.hex()
    if (here := home()) is not None:
        yield here / ".debug" / ".build-id" / name[:2] / name[2:]


def _content(path: Path) -> bytes:
    """That of a regular file; empty for none, or for one that is too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LARGEST + 1)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return content if len(content) <= LARGEST else b""
