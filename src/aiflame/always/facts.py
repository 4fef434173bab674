"""Facts about a process that a window keeps: its identity, and the version of its code. Standard library alone."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import stat
import time
from hashlib import blake2b
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import boot_id, start_ticks
from aiflame.profile.secrets.masking import masked_arguments
from aiflame.recorder.attach.target import texts_of, variables_of
from aiflame.recorder.place import rank_here
from aiflame.store.numbers import number_of
from aiflame.values import asdict, dataclass

FILE = "facts.json"
_LARGEST = 1 << 20
_LARGEST_SCRIPT = 8 << 20
_MOST_TEXT = 4096
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Facts:
    pid: int = 0
    start_ticks: int = 0
    boot: str = ""
    begin_ns: int = 0
    """Since 1970: when the process started."""
    command: str = ""
    user: str = ""
    cgroup: str = ""
    rank: int = -1
    version: str = ""

    @property
    def number(self) -> int:
        """The process in a store."""
        return number_of(self.boot, self.pid, self.start_ticks)

    def write(self, folder: Folder) -> None:
        folder.put(FILE, json.dumps(asdict(self)).encode("utf-8", "replace"))

    @staticmethod
    def read(folder: Folder) -> Facts | None:
        """None: they are missing or damaged, since the agent was killed at their writing."""
        try:
            given = json.loads(folder.read(FILE, limit=_LARGEST) or b"")
            kinds = asdict(Facts())
            return Facts(**{name: type(default)(given[name]) for name, default in kinds.items()})
        except (ValueError, KeyError, TypeError):
            return None


def facts_of(pid: int) -> Facts | None:
    """None: it has ended."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    rank = rank_here(variables_of(pid))
    command = texts_of(pid, "cmdline")
    uptime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return Facts(
        pid,
        ticks,
        boot_id() or "",
        time.time_ns() - uptime_ns + ticks * 10**9 // _TICKS,
        _as_utf8(" ".join(masked_arguments(list(command))))[:_MOST_TEXT],
        _user(pid),
        cgroup_of(pid),
        -1 if rank is None else rank.rank,
        version_of(pid, command),
    )


def cgroup_of(pid: int) -> str:
    """The path in the unified hierarchy."""
    for line in _read(Path(f"/proc/{pid}/cgroup")).decode("utf-8", "replace").splitlines():
        if line.startswith("0::"):
            return line[3:][:_MOST_TEXT]
    return ""


def version_of(pid: int, command: tuple[str, ...]) -> str:
    """The commit of the repository that the main script lies in, and a hash of the script, which shows changes without a commit."""
    with contextlib.suppress(OSError, ValueError):
        here = Path(f"/proc/{pid}/cwd").readlink()
        script = next((here / word for word in command[1:] if not word.startswith("-") and (here / word).is_file()), None)
        begin = script.parent if script is not None else here
        digest = blake2b(_read(script, _LARGEST_SCRIPT), digest_size=4).hexdigest() if script is not None else ""
        return " ".join(text for text in (_commit(begin), digest) if text)
    return ""


def _commit(folder: Path) -> str:
    """The first digits of the commit that is checked out."""
    for above in (folder, *folder.parents):
        git = above / ".git"
        if git.is_file():  # a work tree
            named = _read(git).decode("utf-8", "replace").removeprefix("gitdir:").strip()
            git = above / named
        head = _read(git / "HEAD").decode("utf-8", "replace").strip()
        if not head:
            continue
        if head.startswith("ref: "):
            head = _reference(git, head[5:])
        return head[:12] if _COMMIT.fullmatch(head) else ""
    return ""


def _reference(git: Path, name: str) -> str:
    if not re.fullmatch(r"refs/[\w./+-]+", name) or ".." in name:
        return ""
    common = _read(git / "commondir").decode("utf-8", "replace").strip()
    for base in (git, git / common) if common else (git,):
        if text := _read(base / name).decode("utf-8", "replace").strip():
            return text
        for line in _read(base / "packed-refs").decode("utf-8", "replace").splitlines():
            if line.endswith(f" {name}"):
                return line.split(" ")[0]
    return ""


def _user(pid: int) -> str:
    try:
        number = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _as_utf8(text: str) -> str:
    """Tables take no other text, and an argument may have any bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read(path: Path, most: int = _LARGEST) -> bytes:
    """Of a regular file; empty: there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file, contextlib.suppress(OSError):
        return (file.read(most) or b"") if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    return b""
