"""The waits of a Python program's threads, under every version that a dump reads. The program's source says the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from programs_to_dump import HERE, dumped, functions, named, python, started

from aiflame.dump.deadlocks import deadlocks
from aiflame.dump.described import Described
from aiflame.dump.text import as_text, wait_text
from interpreters import VERSIONS, interpreter

WAITS = {
    "MainThread": ("file", r"waits for data from a pipe \(file 0\) \(read\)"),
    "saves": ("lock", r"waits for a threading\.Lock that loads \(\d+\) holds, in loads\(\) at waiting_program\.py:\d+"),
    "loads": ("lock", r"waits for a threading\.Lock that saves \(\d+\) holds, in saves\(\) at waiting_program\.py:\d+"),
    "queues": ("lock", r"waits for a threading\.Lock that loads \(\d+\) holds, in loads\(\) at waiting_program\.py:\d+"),
    "owner": ("sleep", r"sleeps for (?:\d+ s more|1000 s \(select without files\))"),
    "wants_own": ("lock", r"waits for a threading\.RLock that owner \(\d+\) holds, in owner\(\) at waiting_program\.py:\d+"),
    "wants_mutex": ("lock", r"waits for a mutex that owner \(\d+\) holds, in owner\(\) at waiting_program\.py:\d+"),
    "reads_pipe": ("file", r"waits for data from a pipe \(file \d+\) \(read\)"),
    "receives": ("file", r"waits for data from a local socket \(recvfrom\)"),
    "accepts": ("file", r"is in accept of the listening TCP socket 127\.0\.0\.1:PORT"),
    "polls": ("events", r"waits for events of a pipe \(file \d+\) \(epoll\)"),
    "gets": ("condition", r"waits to be notified"),
    "joins": ("thread", r"waits for the end of thread sleeps \(\d+\), which is in run\(\) at threading\.py:\d+"),
    "sleeps": ("sleep", r"sleeps for (?:\d+ s more|1000 s \(select without files\))"),
    "child": ("child", r"waits for the end of its child process \d+ \(.+\)"),
}
"""By thread: the kind of its wait, and its sentence."""


def _executable(version: str) -> str:
    executable = interpreter(version)
    if executable is None:
        pytest.skip(f"Python {version} is not installed here")
    return executable


@pytest.fixture(scope="module", params=VERSIONS)
def dump(request: pytest.FixtureRequest) -> Iterator[tuple[Described, str]]:
    """A dump of the program, and the port on which it listens."""
    program_file = str(HERE / "waiting_program.py")
    with started([_executable(request.param), program_file], until="") as program:
        connected = _listening_port(program.pid)
        yield dumped(program.pid, lambda process: _waits(process, connected) == WAITS), connected


def _listening_port(pid: int) -> str:
    process = dumped(pid, lambda dump: any("listening" in thread.wait.text for thread in dump.threads))
    return next(thread.wait.text.rpartition(":")[2] for thread in process.threads if "listening" in thread.wait.text)


def _waits(process: Described, port: str) -> dict[str, tuple[str, str]]:
    """Each thread's wait, as its pattern in WAITS if it fits."""
    waits = {}
    for thread in process.threads:
        text = wait_text(process, thread).replace("Thread.run()", "run()").replace(f":{port}", ":PORT")
        kind, pattern = WAITS.get(thread.name, ("", ""))
        waits[thread.name] = (thread.wait.kind, pattern if kind and re.fullmatch(pattern, text) else text)
    return waits


def test_each_thread_says_what_it_waits_for(dump: tuple[Described, str]) -> None:
    assert _waits(*dump) == WAITS


def test_each_stack_has_the_functions_of_the_program(dump: tuple[Described, str]) -> None:
    process, _ = dump
    for name in ("saves", "loads", "owner", "wants_own", "wants_mutex", "reads_pipe", "receives", "accepts", "polls", "child"):
        called = functions(named(process, name))
        assert called[-4] == name, called
        assert called[-3:] == ["run", "_bootstrap_inner", "_bootstrap"]
    assert functions(named(process, "MainThread"))[-1] == "<module>"


def test_lines_are_those_of_the_source(dump: tuple[Described, str]) -> None:
    lines = (HERE / "waiting_program.py").read_text().splitlines()
    for name, code in {"saves": "with first:", "loads": "with second:", "reads_pipe": "os.read(reading, 1)"}.items():
        frame = next(frame for frame in named(dump[0], name).frames if frame.function == name)
        assert lines[frame.line - 1].strip() == code


def test_native_frames_lie_around_python_frames(dump: tuple[Described, str]) -> None:
    frames = named(dump[0], "reads_pipe").frames
    assert not frames[0].python
    assert not frames[-1].python  # the thread's first function
    assert any(frame.python for frame in frames)


def test_a_deadlock_is_named_in_one_sentence(dump: tuple[Described, str]) -> None:
    (sentence,) = deadlocks(dump[0])
    pattern = r"deadlock: (\w+) \(\d+\) waits for the lock that (\w+) \(\d+\) holds, which waits for the lock that (\w+) \(\d+\) holds"
    match = re.fullmatch(pattern, sentence)
    assert match is not None, sentence
    assert set(match.groups()) == {"saves", "loads"}
    assert match[1] == match[3]


def test_only_a_thread_whose_caller_another_register_tells_was_stopped(dump: tuple[Described, str]) -> None:
    """libffi keeps a frame pointer; the kernel shows that of no sleeping thread."""
    assert {thread.name for thread in dump[0].threads if thread.stopped_us} <= {"wants_mutex"}


HOLDS_THE_GIL = """
import re, threading
started = threading.Event()
def in_c():
    started.set()
    re.match("(a+)+$", "a" * 64 + "b")
print("ready", flush=True)
threading.Thread(target=in_c, name="in_c", daemon=True).start()
started.wait()
while True:
    pass
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_who_holds_the_gil_is_told(version: str) -> None:
    with started(python(HOLDS_THE_GIL, executable=_executable(version))) as program:
        # The interpreter lists a thread under its number before it has its name.
        process = dumped(
            program.pid, lambda process: {"gil", "in_c"} <= {of for one in process.threads for of in (one.wait.kind, one.name)}
        )
        holder, waiting = named(process, "in_c"), named(process, "MainThread")
        assert holder.holds_gil
        assert not waiting.holds_gil
        assert holder.wait.kind == "runs"
        assert "match" in functions(holder)
        pattern = r"waits for the GIL, which in_c \(\d+\) holds, in match\(\) at (?:__init__|re)\.py:\d+"
        assert re.fullmatch(pattern, wait_text(process, waiting)), wait_text(process, waiting)


def test_a_hundred_threads_of_a_pool_are_one_entry() -> None:
    text = """
import threading
gate = threading.Event()
def works():
    gate.wait()
for _ in range(100):
    threading.Thread(target=works, daemon=True).start()
print("ready", flush=True)
input()
"""
    with started(python(text)) as program:
        process = dumped(program.pid, lambda process: sum(thread.wait.kind == "condition" for thread in process.threads) == 100)
    lines = list(as_text([process], native=False))
    assert len(process.threads) == 101
    (head,) = (line for line in lines if line.startswith("100 threads: "))
    assert head.endswith(" and 96 more: each waits to be notified")
