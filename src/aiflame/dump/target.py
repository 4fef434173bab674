"""The process that is asked about: whether it can be read, its threads and its files."""

from __future__ import annotations

import os
import select
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.recorder.looks.kernel import read
from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.modules import Modules
from aiflame.values import dataclass

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_X86_64 = 62


@dataclass(frozen=True, slots=True)
class Task:
    tid: int
    inner_tid: int
    """Its number in its own container; the same outside of one."""
    name: str
    state: str
    """The kernel's letter: R runs, S sleeps, D sleeps and takes no signal, T stopped, t stopped by a debugger."""
    wchan: str
    """The function of the kernel in which it sleeps; empty if the kernel hides it."""


class Target:
    """Open until `close`. An error in one line if there is no such process, or it cannot be read."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        status = _status(pid)
        if (group := int(status.get("Tgid", pid))) != pid:
            raise AiflameError(f"{pid} is a thread of process {group}: aiflame dump {group}")
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            raise _gone(pid) from None
        self.name = status.get("Name", "")
        self._in_container = len(status.get("NSpid", "").split()) > 1
        self.tracer = int(status.get("TracerPid", 0))
        self.root = f"/proc/{pid}/root"
        try:
            self._check(status)
            self.memory = Memory(pid)
            self.modules = Modules(pid, self.memory)
            self.modules.files()
            os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
        except PermissionError:
            os.close(self._pidfd)
            raise AiflameError(_refused(pid, status)) from None
        except (FileNotFoundError, ProcessLookupError):
            os.close(self._pidfd)
            raise _gone(pid) from None
        except BaseException:
            os.close(self._pidfd)
            raise

    def close(self) -> None:
        self.memory.close()
        os.close(self._pidfd)

    def has_ended(self) -> bool:
        """If it has not, all that was read under its number belongs to it."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def ended_meanwhile(self) -> AiflameError:
        return AiflameError(f"process {self.pid} ({self.name}) ended while it was read")

    def tasks(self) -> list[Task]:
        tasks = []
        for name in os.listdir(f"/proc/{self.pid}/task"):  # noqa: PTH208
            folder = f"/proc/{self.pid}/task/{name}"
            try:
                head, _, fields = read(f"{folder}/stat").rpartition(b")")
                wchan = read(f"{folder}/wchan").decode("latin-1")
                inner = int(_status_of(folder).get("NSpid", name).split()[-1]) if self._in_container else int(name)
            except (OSError, ValueError):  # the thread has ended
                continue
            tasks.append(
                Task(
                    int(name),
                    inner,
                    head.partition(b"(")[2].decode("utf-8", "replace"),
                    fields.split()[0].decode("ascii", "replace"),
                    "" if wchan == "0" else wchan,
                )
            )
        return sorted(tasks, key=lambda task: (task.tid != self.pid, task.tid))

    def environment(self) -> dict[str, str]:
        """The environment with which it was started; empty if it cannot be read."""
        try:
            data = Path(f"/proc/{self.pid}/environ").read_bytes()
        except OSError:
            return {}
        return dict(entry.decode("utf-8", "replace").split("=", 1) for entry in data.split(b"\0") if b"=" in entry)

    def command(self) -> str:
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return self.name
        return " ".join(word.decode("utf-8", "replace") for word in words if word)

    def file(self, descriptor: int) -> str:
        """The file of a descriptor of the process, as the kernel writes it; empty if it is not open."""
        try:
            return str(Path(f"/proc/{self.pid}/fd/{descriptor}").readlink())
        except OSError:
            return ""

    def _check(self, status: dict[str, str]) -> None:
        if status.get("State", "").startswith(("Z", "X")):
            parent = int(status.get("PPid", 0))
            raise AiflameError(
                f"process {self.pid} ({self.name}) has ended; its parent {parent} ({comm(parent)}) has not waited for it yet"
            )
        if status.get("Kthread") == "1" or "VmSize" not in status:
            raise AiflameError(f"{self.pid} ({self.name}) is a thread of the kernel, and has no program")
        try:
            head = os.pread(file := os.open(f"/proc/{self.pid}/exe", os.O_RDONLY | os.O_CLOEXEC), 20, 0)
        except FileNotFoundError:
            raise _gone(self.pid) from None
        os.close(file)
        if head[:4] == b"\x7fELF" and (head[4] != 2 or int.from_bytes(head[18:20], "little") != _X86_64):
            raise AiflameError(f"process {self.pid} ({self.name}) is no 64-bit x86 program: its stacks cannot be read")


def comm(pid: int) -> str:
    """The name of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def _status(pid: int) -> dict[str, str]:
    try:
        return _status_of(f"/proc/{pid}")
    except OSError:
        raise _gone(pid) from None


def _status_of(folder: str) -> dict[str, str]:
    lines = read(f"{folder}/status").decode("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _gone(pid: int) -> AiflameError:
    return AiflameError(f"there is no process {pid}")


def _refused(pid: int, status: dict[str, str]) -> str:
    """The reason why the system does not let us read the process, and the remedy."""
    what = f"the system does not let us read process {pid} ({status.get('Name', '')}): "
    owner = int(status.get("Uid", "0").split()[0])
    if owner != os.geteuid() and os.geteuid() != 0:
        return what + f"it belongs to user {_user(owner)}: sudo aiflame dump {pid}, or run it as that user"
    try:
        scope = int(_YAMA.read_text())
    except (OSError, ValueError):
        scope = 0
    if scope == 3:
        return what + "kernel.yama.ptrace_scope is 3, which only a restart of the machine changes"
    if scope and os.geteuid() != 0:
        return what + f"kernel.yama.ptrace_scope is {scope}: sudo sysctl kernel.yama.ptrace_scope=0, or sudo aiflame dump {pid}"
    if os.geteuid() == 0:
        return what + "this container has no right to (docker run --cap-add=SYS_PTRACE), or a security module forbids it"
    return what + f"it has more rights than we do, or lies in another container: sudo aiflame dump {pid}"


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


__all__ = ["Target", "Task", "UnreadableError", "comm"]
