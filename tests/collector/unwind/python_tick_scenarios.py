"""Frames read in a signal handler, at any instruction of calls of known functions: scenarios of python_scenarios.py."""

from __future__ import annotations

import ast
import ctypes
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from python_reader import Reader, lines

SOURCE = Path(__file__).read_text()


def leaf(x: int) -> int:
    total = 0
    for number in range(x & 7):
        total += number
    return total


def numbers(count: int) -> Generator[int, None, None]:
    for number in range(count):
        yield leaf(number)


def middle_call(x: int) -> int:
    first = leaf(x)
    second = sum(numbers(3))
    return first + second


def upper(x: int) -> int:
    below = middle_call(x)
    ordered = sorted([3, 1, 2], key=leaf)
    return below + len(ordered)


def fibonacci(n: int) -> int:
    if n < 2:
        return n
    one = fibonacci(n - 1)
    return one + fibonacci(n - 2)


def rounds(count: int) -> int:
    total = 0
    for number in range(count):
        total += upper(number)
        total += fibonacci(6)
    return total


def graph(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rounds(20)


GRAPH = (leaf, numbers, middle_call, upper, fibonacci, rounds, graph)


def names_by_line() -> dict[int, set[str]]:
    """The names on each line of this file."""
    mentioned: dict[int, set[str]] = {}
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.Name):
            mentioned.setdefault(node.lineno, set()).add(node.id)
    return mentioned


def ticks(reader: Reader, hertz: int = 15000, wanted: int = 11000) -> dict[str, object]:
    """Chains read in a signal handler at any instruction: each caller stands on a line that mentions the function it called."""
    mentioned = names_by_line()
    reader.library.test_start_ticks(ctypes.c_long(hertz), ctypes.c_size_t(wanted * 2))
    deadline = time.monotonic() + 300
    while reader.library.test_sampled() < wanted and time.monotonic() < deadline:
        graph(0.5)
    count = reader.library.test_stop_ticks()
    rows = reader.codes()
    names = {row: code.qualname for row, code in rows.items()}
    ours = {function.__name__ for function in GRAPH}
    wrong: dict[str, int] = {}
    in_graph = missed = 0
    for index in range(count):
        chain = reader.sample(index)
        # Where an evaluator is just being entered, no chain at all is an honest answer.
        if not chain:
            missed += 1
            continue
        functions = [names.get(frame.code, "?") for frame in chain]
        where = [
            lines.line_of(rows[frame.code].linetable, rows[frame.code].first_line, frame.offset, sys.hexversion >> 16) for frame in chain
        ]
        inside = "graph" in functions
        in_graph += inside
        good = functions[-1] == "<module>"
        for at in range(functions.index("graph") if inside else 0):
            good = good and functions[at] in ours and functions[at] in mentioned.get(where[at + 1], ())
        if not good:
            key = " < ".join(f"{name}:{line}" for name, line in zip(functions[:5], where, strict=False))
            wrong[key] = wrong.get(key, 0) + 1
    return {"samples": count, "in_graph": in_graph, "missed": missed, "wrong": sum(wrong.values()), "examples": sorted(wrong)[:5]}


def released(reader: Reader) -> dict[str, object]:
    """A thread that has given up the GIL and waits, seen from the handler."""
    functions: list[list[str]] = []

    def sleeper() -> None:
        reader.library.test_start_ticks(ctypes.c_long(1000), ctypes.c_size_t(4000))
        deadline = time.monotonic() + 300
        while reader.library.test_sampled() < 300 and time.monotonic() < deadline:
            time.sleep(0.05)
        count = reader.library.test_stop_ticks()
        rows = reader.codes()
        functions.extend([rows[frame.code].qualname for frame in reader.sample(index)] for index in range(count))

    def busy(stop: threading.Event) -> None:
        while not stop.is_set():
            rounds(5)

    stop = threading.Event()
    other = threading.Thread(target=busy, args=(stop,))
    other.start()
    thread = threading.Thread(target=sleeper)
    thread.start()
    thread.join()
    stop.set()
    other.join()
    inside = [names for names in functions if any(name.endswith("sleeper") for name in names)]
    return {"samples": len(functions), "in_sleeper": len(inside), "others": [names for names in functions if names not in inside][:3]}


def leave(reader: Reader) -> dict[str, object]:
    """Ticks go on while the interpreter is torn down around a daemon thread."""

    started = threading.Event()

    def busy() -> None:
        reader.library.test_start_ticks(ctypes.c_long(2000), ctypes.c_size_t(20000))
        started.set()
        while True:
            rounds(5)

    reader.library.test_start_ticks(ctypes.c_long(2000), ctypes.c_size_t(20000))
    threading.Thread(target=busy, daemon=True).start()
    started.wait()
    rounds(50)
    return {}
