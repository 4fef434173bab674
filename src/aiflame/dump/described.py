"""The threads of a process, each with its name, the reason of its wait, and its stack."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiflame.errors import AiflameError
from aiflame.recorder.looks.interpreter import PythonFrame
from aiflame.recorder.looks.memory import UnreadableError
from aiflame.values import dataclass, field

from .calls import Wait, file_wait
from .capture import Captured, capture
from .locks import FUTEX, Locks
from .names import module_name, name_frames, opened
from .python_frames import Python, find
from .static_rules import add_static_rules
from .stopping import NotStoppedError
from .target import Target

_C_LIBRARY = re.compile(r"lib(?:c|pthread|m|dl)[-.\d]*\.so.*|ld-linux.*|\[vdso\]|ld-musl.*")
_DISTRIBUTED = ("torch/distributed/distributed_c10d.py",)
_OPS = r"(?P<op>(?:all_?(?:reduce|gather|toall)|reduce_?scatter|broadcast|barrier|reduce|gather|scatter|send|recv)\w*)"
_COLLECTIVES = (
    re.compile(r"(?:c10d::)?ProcessGroup(?P<backend>NCCL|Gloo|MPI|UCC)::" + _OPS, re.IGNORECASE),
    re.compile(r"(?P<backend>gloo)::" + _OPS, re.IGNORECASE),
    re.compile(r"(?P<backend>nccl|MPI_)" + _OPS, re.IGNORECASE),
)
_BOOTSTRAP = ("_bootstrap", "_bootstrap_inner", "Thread._bootstrap", "Thread._bootstrap_inner")


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    file: str
    """Of a Python frame its source file, of a native one its binary."""
    line: int
    """0: not known."""
    python: bool
    inside: bool = False
    """A native frame of the interpreter, the C library or the loader."""


@dataclass(slots=True)
class Thread:
    tid: int
    name: str
    state: str
    wait: Wait
    frames: list[Frame]
    """Innermost first."""
    stopped_us: int
    note: str
    holds_gil: bool = False
    collective: str = ""
    """The collective operation in which it is."""

    def place(self) -> str:
        """Where it is: its innermost Python function that is the program's own, or else its innermost native one."""
        shown = [frame for frame in self.frames if frame.python and not frame.file.endswith("/threading.py")]
        shown = shown or [frame for frame in self.frames if not frame.inside and not frame.function.startswith("[unknown]")]
        if not shown:
            return ""
        frame = shown[0]
        return f"in {frame.function}() at {frame.file.rpartition('/')[2]}:{frame.line}" if frame.python else f"in {frame.function}()"


@dataclass(slots=True)
class Described:
    pid: int
    name: str
    command: str
    python: str
    """The version of its interpreter; empty: none that we can read."""
    rank: int | None
    threads: list[Thread]
    notes: list[str] = field(default_factory=list)
    job: tuple[str, ...] = ()

    def thread(self, tid: int | None) -> Thread | None:
        return next((thread for thread in self.threads if thread.tid == tid), None)


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_JOB = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID")


def job_of(environment: dict[str, str]) -> tuple[int | None, tuple[str, ...]]:
    """The process's rank, and the variables that its job's processes share; none if it belongs to no job."""
    rank = next((int(environment[name]) for name in _RANKS if environment.get(name, "").isdigit()), None)
    job = tuple(f"{name}={environment[name]}" for name in _JOB if name in environment)
    return rank, job if rank is not None else ()


def describe(pid: int) -> Described:
    """AiflameError if there is no such process, if it cannot be read, or if it ends meanwhile."""
    target = Target(pid)
    try:
        try:
            python, note = find(target)
            _read_static_rules(target)
            captured = capture(target, python)
            described = _describe(target, python, captured)
        except (OSError, UnreadableError, NotStoppedError):
            if target.has_ended():
                raise target.ended_meanwhile() from None
            raise AiflameError(f"process {pid} ({target.name}) changed while it was read: try again") from None
        if target.has_ended() or not captured:
            raise target.ended_meanwhile()
        described.notes += [note] if note else []
        if target.tracer:
            described.notes.append(f"process {target.tracer} debugs it: threads that run cannot be stopped for their stacks")
        return described
    finally:
        target.close()


def _describe(target: Target, python: Python | None, captured: list[Captured]) -> Described:
    names = name_frames(target, (frame for one in captured for frame in one.native.frames))
    interpreter = python.module.path if python is not None else ""
    locks = Locks(target.memory, python, captured)
    holders = locks.gil_holders()
    threads = []
    for one in captured:
        frames, labels, first = list[Frame](), dict[int, str](), PythonFrame(0, b"", 0, 0)
        for frame in one.merged():
            if isinstance(frame, PythonFrame):
                line = python.line(frame) if python is not None else None
                labels[frame.address] = line.function if line is not None else ""
                first = frame
                frames.append(Frame(*((line.function, line.file, line.line) if line is not None else ("[unknown]", "", 0)), python=True))
            else:
                path = frame.module.path if frame.module is not None else ""
                file = module_name(frame.module)
                inside = bool(path) and (path == interpreter or _C_LIBRARY.fullmatch(file) is not None)
                frames.append(Frame(names[frame.pc, frame.exact], path, 0, False, inside))
        native = _until_python(frames)
        wait = _wait(target, locks, one, native, labels)
        name = _name(target, python, locks, one, first, frames)
        holds = one.task.tid in holders
        threads.append(Thread(one.task.tid, name, one.task.state, wait, frames, one.stopped_us, one.note, holds, _collective(frames)))
    rank, job = job_of(target.environment())
    version = f"{python.version >> 8}.{python.version & 255}" if python is not None else ""
    return Described(target.pid, target.name, target.command(), version, rank, threads, job=job)


def _read_static_rules(target: Target) -> None:
    """The program itself may have been linked statically; libraries have search tables."""
    first = next((module for module in target.modules.files() if module.path.startswith("/")), None)
    if first is not None and target.modules.at(first.low) is first and first.rules is None:
        with opened(target, first) as elf:
            if elf is not None:
                add_static_rules(target.memory, first, elf)


def _until_python(frames: Iterable[Frame]) -> list[Frame]:
    native = []
    for frame in frames:
        if frame.python:
            break
        native.append(frame)
    return native


def _wait(target: Target, locks: Locks, one: Captured, native: list[Frame], labels: dict[int, str]) -> Wait:
    if one.task.state in ("T", "t"):
        return Wait("stopped", "is stopped" + (" by a debugger" if one.task.state == "t" else " by a signal"))
    if one.call is None:
        if one.task.state == "D":
            return Wait("other", "waits in the kernel" + (f" ({one.task.wchan})" if one.task.wchan else ""))
        return Wait("runs", "runs")
    if one.call.number == FUTEX:
        return locks.wait(one, [frame.function for frame in native], labels)
    library = next((frame.file.rpartition("/")[2] for frame in native if not frame.inside), "")
    return file_wait(target, one.call, library)


def _name(target: Target, python: Python | None, locks: Locks, one: Captured, outermost: PythonFrame, frames: list[Frame]) -> str:
    """The name that the program gave to the thread: in Python by its Thread object, which the outermost frame has."""
    task = one.task
    begun = next((frame.function for frame in reversed(frames) if frame.python), "")
    if python is None or locks.objects is None or begun not in _BOOTSTRAP:
        return "MainThread" if task.tid == target.pid and one.python else task.name
    own = next(iter(python.locals_of(outermost, 1)), 0)
    place = locks.objects.attribute(own, "_name") if own else None
    return (locks.objects.text(place) if place else None) or task.name


def _collective(frames: list[Frame]) -> str:
    """The operation, and its backend if a native frame names it."""
    op = next((frame.function for frame in frames if frame.python and frame.file.endswith(_DISTRIBUTED)), "")
    for frame in frames:
        if frame.python:
            continue
        for pattern in _COLLECTIVES:
            if match := pattern.match(frame.function):
                return f"{op or match['op']} ({match['backend'].rstrip('_')})"
    return op
