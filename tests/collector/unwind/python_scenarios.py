"""Programs whose frames are known, one a function: `python_scenarios.py LIBRARY SCENARIO` prints the frames that the reader found, as JSON.

Runs under each CPython that is read; test_python_frames.py has the expected frames.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import importlib
import json
import os
import sys
import threading
import types
from collections.abc import Callable, Generator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from python_code_scenarios import codes, reuse
from python_reader import Reader, code_of, frames_of
from python_tick_scenarios import leaf, leave, released, ticks


class Check:
    """Compares the walk with the interpreter's own chain, wherever it is called."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.checks = self.frames = 0
        self.wrong: list[str] = []
        self.ids: dict[int, tuple[types.CodeType, int]] = {}
        """By identity (equal code objects are not the same): the object, which must live on, and its row."""

    def __call__(self, *_: object) -> int:
        read, chain = self.reader.walk(), frames_of(sys._getframe())
        self.checks += 1
        self.frames += len(read)
        if len(read) != len(chain):
            self.wrong.append(f"{len(read)} frames, not {len(chain)}")
        group = 0
        for index, (ours, theirs) in enumerate(zip(read, chain, strict=False)):
            code_of_ours = self.ids.setdefault(id(theirs.f_code), (theirs.f_code, ours.code))[1]
            # The innermost frame has moved on since the walk.
            if ours.code != code_of_ours or (index and ours.offset != theirs.f_lasti):
                self.wrong.append(f"frame {index}: {ours} is not {theirs}")
            if ours.evaluator < group or ours.evaluator < self.reader.library.test_stack_address():
                self.wrong.append(f"frame {index}: evaluator out of order")
            group = ours.evaluator
        if not read[-1].entry:
            self.wrong.append("the outermost frame is not an entry")
        return 0

    def codes_that_differ(self) -> list[str]:
        rows = self.reader.codes()
        return [str(code) for code, row in self.ids.values() if rows[row] != code_of(code)]


def nested(reader: Reader) -> dict[str, object]:
    """The chain in every way in which one frame can be called by another, in two threads."""
    check = Check(reader)
    # A collection may run code of its own above a frame that has not begun: see unborn().
    gc.disable()

    def generator(count: int) -> Generator[int, None, None]:
        for number in range(count):
            check()
            yield number

    def delegating(count: int) -> Generator[int, None, None]:
        yield from generator(count)

    class Ordered:
        def __lt__(self, other: object) -> bool:
            check()
            return id(self) < id(other)

        def __del__(self) -> None:
            check()

        def __enter__(self) -> None:
            check()

        def __exit__(self, *_: object) -> None:
            check()

    async def coroutine() -> None:
        await asyncio.sleep(0)
        check()

    def recursive(depth: int) -> int:
        return recursive(depth - 1) if depth else check()

    def leaves() -> None:
        recursive(5)
        sorted([Ordered() for _ in range(4)])
        with Ordered():
            list(map(check, [1, 2]))
        sum(delegating(3))
        [check() for _ in range(2)]
        {check(): 1 for _ in range(2)}
        exec("check()", {"check": check})
        try:
            raise ValueError
        except ValueError:
            check()
        finally:
            check()
        asyncio.run(coroutine())

    def nest(depth: int) -> int:
        if depth == 0:
            leaves()
        elif depth % 2:
            list(map(nest, [depth - 1]))
        else:
            functools.reduce(lambda _, __: nest(depth - 1), [1, 2])
        return depth

    for _ in range(5):
        nest(4)
    thread = threading.Thread(target=nest, args=(4,))
    thread.start()
    thread.join()
    return {"checks": check.checks, "frames": check.frames, "wrong": check.wrong[:5], "codes": check.codes_that_differ()[:5]}


def unwritten(reader: Reader) -> dict[str, object]:
    """3.10 never writes the previous pointer of a thread state's own CFrame: it holds old memory."""
    walks: list[list[int]] = []

    def walk() -> None:
        walks.append([frame.evaluator for frame in reader.walk()])

    def body() -> None:
        walk()
        get = ctypes.pythonapi.PyThreadState_Get
        get.restype = ctypes.c_void_p
        link = ctypes.c_uint64.from_address(get() + 264 + 8)
        before = link.value
        link.value = walks[0][-1]
        walk()
        link.value = before

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return {"evaluators": walks}


def evaluators(reader: Reader) -> dict[str, object]:
    """Which frames share a native evaluator: calls between Python functions from 3.11 on, never a call through C."""
    walks: list[list[tuple[str, bool, int]]] = []

    def inner() -> None:
        read = reader.walk()
        names = [frame.f_code.co_name for frame in frames_of(sys._getframe())]
        walks.append([(name, frame.entry, frame.evaluator) for name, frame in zip(names, read, strict=True)])

    def middle(_: object) -> None:
        inner()

    def outer() -> None:
        list(map(middle, [1]))

    outer()
    return {"frames": walks[0]}


def self_test(reader: Reader) -> dict[str, object]:
    """The verdict of the real self-test, and of one with a wrong layout."""
    for _ in range(1000):
        pass
    faults = ("nothing", "instruction", "previous", "code", "first line", "file name", "line table")
    return {
        "verdict": reader.library.test_verdict(),
        "faults": {fault: reader.library.test_self_test_with(fault.encode()) for fault in faults},
    }


def unborn(reader: Reader) -> dict[str, object]:
    """The self-test above frames that Python does not show yet: a collection starts while a function makes its cells."""
    verdicts: dict[int, int] = {}

    def collected(*_: object) -> None:
        verdict = reader.library.test_self_test_with(b"nothing")
        verdicts[verdict] = verdicts.get(verdict, 0) + 1

    def with_cells(argument: object, other: object) -> object:
        def inner() -> object:
            return argument, other

        return inner

    gc.callbacks.append(collected)
    gc.set_threshold(1)
    for number in range(2000):
        with_cells(number, [number])
        sum(leaf(at) for at in range(2))
    gc.callbacks.clear()
    return {"verdicts": verdicts}


def preloaded(reader: Reader) -> dict[str, object]:
    """The library was loaded before there was an interpreter (see LD_PRELOAD of the caller)."""
    before = reader.library.test_verdict()
    frames = len(reader.walk())
    reader.library.test_schedule_self_test()
    for _ in range(1000):
        pass
    return {"before": before, "frames": frames, "after": reader.library.test_verdict()}


def sub_interpreter(reader: Reader) -> dict[str, object]:
    """A tick inside a sub-interpreter sees the frames that run there."""
    try:
        interpreters = importlib.import_module("_interpreters")
    except ImportError:
        interpreters = importlib.import_module("_xxsubinterpreters")
    program = """
import time
def inner():
    end = time.process_time() + 0.4
    while time.process_time() < end:
        sum(range(1000))
inner()
"""
    interpreter = interpreters.create()
    reader.library.test_start_ticks(ctypes.c_long(1000), ctypes.c_size_t(2000))
    interpreters.run_string(interpreter, program)
    count = reader.library.test_stop_ticks()
    rows = reader.codes()
    inside = sum(any(rows[frame.code].qualname == "inner" for frame in reader.sample(index)) for index in range(count))
    return {"samples": count, "inside": inside}


def foreign_thread(reader: Reader) -> dict[str, object]:
    return {"frames": reader.library.test_walk_in_foreign_thread()}


def fork(reader: Reader) -> dict[str, object]:
    """The child writes its code objects anew, into tables of its own."""
    check = Check(reader)
    check()
    child = os.fork()
    if child == 0:
        reader.library.test_after_fork()
        again = Check(reader)
        again()
        folder = next(path for path in (reader.profile / "spool").iterdir() if path.name == f"{os.getpid()}.2")
        rows = reader.codes(folder)
        os._exit(0 if not again.wrong and all(rows[row] == code_of(code) for code, row in again.ids.values()) else 3)
    return {"status": os.waitpid(child, 0)[1]}


SCENARIOS: dict[str, Callable[[Reader], dict[str, object]]] = {
    function.__name__: function
    for function in (
        nested,
        unwritten,
        evaluators,
        ticks,
        released,
        codes,
        reuse,
        self_test,
        unborn,
        preloaded,
        sub_interpreter,
        foreign_thread,
        fork,
        leave,
    )
}


if __name__ == "__main__":
    the_reader = Reader(Path(sys.argv[1]))
    print(json.dumps(SCENARIOS[sys.argv[2]](the_reader)))
