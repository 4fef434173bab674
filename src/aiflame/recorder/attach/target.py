"""Facts about a program that runs, from `/proc/PID`, and why it cannot be attached to."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import start_ticks
from aiflame.profile.folder.other_root import find, open_root
from aiflame.recorder.numbers import namespace_of
from aiflame.values import dataclass

_LARGEST = 4 << 20
_PATIENCE_S = 0.3
_MUSL = re.compile(rb"/(ld-musl-[^\n]*|libc\.musl[^\n]*)\.so")
_GLIBC = re.compile(rb"/libc(\.so\.6|-2\.\d+\.so)\n")
_SANITIZER = re.compile(rb"/lib(a|t|m|l)san\.so")
_ENDED, _STOPPED = ("Z", "X", "x"), ("T",)
_START_TICKS, _STACK = 19, 25
"""Fields of /proc/PID/stat behind the name."""

Image = tuple[int, int]
"""When a process was started, and where the stack of its program begins: another program in the same process has another."""


@dataclass(frozen=True, slots=True)
class Target:
    pid: int
    start_ticks: int
    command: tuple[str, ...]
    variables: dict[str, str]
    pidfd: int
    """It stands for this process, also when another one gets its number."""

    def lives(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks and _facts(self.pid).get("State", "Z")[0] not in _ENDED


def target(pid: int) -> Target:
    """AiflameError, in one line, if the process cannot be attached to."""
    if pid == os.getpid():
        raise AiflameError("aiflame cannot attach to itself: name another process")
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, OverflowError):
        if facts := _facts(pid):
            raise AiflameError(f"{pid} is a thread of process {facts.get('Tgid', '?')}: attach to that one") from None
        raise AiflameError(f"there is no process {pid}: aiflame ps lists those that run") from None
    try:
        _refuse(pid)
        ticks = start_ticks(pid)
        if ticks is None:
            raise AiflameError(f"there is no process {pid}: it has just ended")
        variables = variables_of(pid)
        if "AIFLAME_PROFILE" in variables and has_collector(pid):
            raise AiflameError(f"process {pid} is recorded already, into {variables['AIFLAME_PROFILE']}")
        return Target(pid, ticks, texts_of(pid, "cmdline"), variables, pidfd)
    except BaseException:
        os.close(pidfd)
        raise


def variables_of(pid: int) -> dict[str, str]:
    """The variables with which its program was started; empty where we may not read them."""
    return dict(text.split("=", 1) for text in texts_of(pid, "environ") if "=" in text)


def has_collector(pid: int) -> bool:
    """True where the collector is loaded, be it at work or not."""
    try:
        return b"/libaiflame.so" in maps_text(pid)
    except OSError:
        return False


def image(pid: int) -> Image | None:
    """None: there is no such process, or it has ended and waits for its parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _ENDED else (int(fields[_START_TICKS]), int(fields[_STACK]))


def finds(pid: int, *paths: Path) -> bool:
    """False if the program finds other files at these paths than we do: it lives in a container, or below another root folder."""
    with contextlib.suppress(OSError):
        return all(os.path.samestat(path.stat(), _there(pid, path)) for path in paths)
    return False


def finds_proc(pid: int) -> bool:
    """Whether /proc is mounted where the program looks for it."""
    with contextlib.suppress(OSError):
        _there(pid, Path("/proc/version"))
        return True
    return False


def _there(pid: int, path: Path) -> os.stat_result:
    """The file that the program finds at a path. OSError: none."""
    with contextlib.ExitStack() as opened:
        root = open_root(pid)
        opened.callback(os.close, root)
        try:
            file = find(root, str(path))
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):  # an older kernel, or a filter: links may then lead to files of ours
                raise
            return Path(f"/proc/{pid}/root{path}").stat()
        opened.callback(os.close, file)
        return os.fstat(file)


def _refuse(pid: int) -> None:
    facts = _facts(pid)
    if not facts:
        raise AiflameError(f"there is no process {pid}: it has just ended")
    state = facts.get("State", "?")[0]
    if state in _ENDED:
        raise AiflameError(f"process {pid} has ended; its parent {facts.get('PPid', '?')} has not asked for its exit status yet")
    if state in _STOPPED:
        raise AiflameError(f"process {pid} is stopped: let it go on first (kill -CONT {pid})")
    if "VmSize" not in facts:
        raise AiflameError(f"process {pid} is a thread of the kernel: name a program")
    tracer = tracer_of(pid)
    if tracer and not _ends_soon(pid):
        name = _facts(tracer).get("Name", "?")
        raise AiflameError(f"process {pid} is being traced by process {tracer} ({name}): end that first")
    owner = int(facts["Uid"].split()[1])
    if owner != os.geteuid():
        how = f"sudo -u '#{owner}' aiflame attach {pid}" if os.geteuid() == 0 else f"sudo -u '#{owner}' aiflame attach {pid}, if you may"
        raise AiflameError(f"process {pid} belongs to user {owner}, who could not write into your profile: {how}")
    try:
        head, mapped = _head(pid), maps_text(pid)
    except PermissionError:
        raise AiflameError(_why_not_traced(pid)) from None
    if head[:4] != b"\x7fELF" or head[4:5] != b"\2" or head[18:20] != b"\x3e\x00":
        raise AiflameError(f"process {pid} is no 64-bit program for x86-64: aiflame cannot attach to it")
    if _MUSL.search(mapped):
        raise AiflameError(f"process {pid} uses musl for its C library: aiflame attaches to programs with glibc")
    if not _GLIBC.search(mapped + b"\n"):
        raise AiflameError(f"process {pid} is linked statically, without glibc as a library: record it from its start")
    if _SANITIZER.search(mapped):
        raise AiflameError(f"process {pid} runs under a sanitizer: record it from its start")
    if facts.get("Seccomp") == "1" or (has_own_filters(pid) and not began_in_container(pid)):
        raise AiflameError(f"process {pid} has put itself into a sandbox (seccomp), which may end it: record it from its start")


def _why_not_traced(pid: int) -> str:
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = "0"
    if scope in ("1", "2"):
        return f"Yama lets nobody trace process {pid}: sudo sysctl kernel.yama.ptrace_scope=0, or attach as root"
    if scope == "3":
        return f"Yama lets nobody trace processes until this machine starts anew: record process {pid} from its start"
    return f"the system does not let us trace process {pid} (a container without SYS_PTRACE, or a program with privileges)"


def tracer_of(pid: int) -> int:
    """The process that traces this process or thread; 0: none."""
    return int(_facts(pid).get("TracerPid", "0"))


def _ends_soon(pid: int) -> bool:
    """True when nobody traces the process any more: another `aiflame attach` does it for moments."""
    until = time.monotonic() + _PATIENCE_S
    while tracer_of(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def began_in_container(pid: int) -> bool:
    """Whether a container's runtime has begun it: it lives in another namespace of processes than its parent."""
    parent = int(_facts(pid).get("PPid", "0"))
    return not parent or namespace_of(parent) not in ("", namespace_of(pid))


def has_own_filters(pid: int) -> bool:
    """Whether it has filters of system calls that its parent has not. In our own container its runtime has set the same ones for us."""
    facts = _facts(pid)
    others = [_facts(int(facts.get("PPid", "0")))]
    if began_in_container(pid) and namespace_of(pid) == namespace_of():
        others.append(_facts(os.getpid()))
    return _filters(facts) > max(map(_filters, others))


def _filters(facts: dict[str, str]) -> int:
    return int(facts.get("Seccomp_filters", "0"))


def _facts(pid: int) -> dict[str, str]:
    """/proc/PID/status; empty: there is no such process."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _head(pid: int) -> bytes:
    with Path(f"/proc/{pid}/exe").open("rb") as file:
        return file.read(64)


def maps_text(pid: int) -> bytes:
    with Path(f"/proc/{pid}/maps").open("rb") as file:
        return file.read(_LARGEST)


def texts_of(pid: int, name: str) -> tuple[str, ...]:
    """The texts of /proc/PID/cmdline or environ; none where we may not read them."""
    try:
        with Path(f"/proc/{pid}/{name}").open("rb") as file:
            data = file.read(_LARGEST)
    except OSError:
        return ()
    return tuple(os.fsdecode(part) for part in data.split(b"\0")[: -1 if data.endswith(b"\0") else None])
