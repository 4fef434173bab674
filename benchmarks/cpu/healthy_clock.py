"""Runs a Python program, and says how much CPU time some of its lines take by clocks of its own process.

    healthy_clock.py OUT.jsonl SCRIPT [ARGUMENT …]

The smallest statement that holds a line of SCRIPT with the comment `# clocked` is put between two readings of the process's CPU clock (all
its threads) and of its thread's. Garbage collections and imports are timed, too: by `gc.callbacks`, and around the outermost `import`. A
notebook's kernel runs `startup()`, which times its cells; other programs may call `begin()`. Each process writes a JSON line with seconds;
children of forks write their own.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import gc
import itertools
import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

CLOCK, OF_THREAD = time.process_time, time.thread_time
EVERY_S = 0.2
GC, IMPORTS = "garbage collection", "imports"
CLOCKED = "# clocked"

took: dict[str, float] = defaultdict(float)
begun: dict[tuple[str, int], tuple[float, float]] = {}
depth: dict[tuple[str, int], int] = defaultdict(int)
state: dict[str, Any] = {"pid": os.getpid(), "written": 0.0, "out": None}


def enter(what: str) -> None:
    key = (what, threading.get_ident())
    depth[key] += 1
    if depth[key] == 1:
        begun[key] = CLOCK(), OF_THREAD()


def leave(what: str) -> None:
    key = (what, threading.get_ident())
    depth[key] -= 1
    if depth[key] == 0:
        if state["pid"] != os.getpid():  # forked since
            state["pid"] = os.getpid()
            took.clear()
        took[what] += CLOCK() - begun[key][0]
        if what not in (GC, IMPORTS):
            took[f"{what}, its own thread"] += OF_THREAD() - begun[key][1]
        if CLOCK() - state["written"] > EVERY_S:
            write()


def write() -> None:
    """The last line of a process counts."""
    state["written"] = CLOCK()
    others = {"other threads": CLOCK() - OF_THREAD()} if threading.current_thread() is threading.main_thread() else {}
    with state["out"].open("a") as out:
        out.write(json.dumps({"pid": os.getpid(), "cpu_s": CLOCK(), "took": took | others}) + "\n")


class Timed(ast.NodeTransformer):
    """The smallest statements that hold the lines, in `try … finally`."""

    def __init__(self, lines: set[int]) -> None:
        self.lines = lines

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        if not isinstance(node, ast.stmt) or hasattr(node, "body") or hasattr(node, "cases"):
            return node
        held = [line for line in self.lines if node.lineno <= line <= (node.end_lineno or node.lineno)]
        if not held:
            return node
        name = f"line {held[0]}"
        source = f"_clock_enter({name!r})\ntry:\n  pass\nfinally:\n  _clock_leave({name!r})"
        first, around = ast.parse(source).body
        assert isinstance(around, ast.Try)
        around.body = [node]
        return [ast.copy_location(ast.fix_missing_locations(ast.copy_location(one, node)), node) for one in (first, around)]


def of_collections(phase: str, _: object) -> None:
    (enter if phase == "start" else leave)(GC)


# As if it were the importer's own: places of imports are then those of the program.
IMPORT = """
def timed_import(*values, **named):
    enter("imports")
    try:
        return imported(*values, **named)
    finally:
        leave("imports")
"""


def begin(out: Path) -> None:
    state["out"] = out
    for one in (enter, leave, write, of_collections):  # lines of a file would be the program's own, and their time not its lines'
        one.__code__ = one.__code__.replace(co_filename="<string>")
    atexit.register(write)
    gc.callbacks.append(of_collections)
    around: dict[str, Any] = {"enter": enter, "leave": leave, "imported": builtins.__import__}
    exec(compile(IMPORT, "<frozen importlib._clock>", "exec"), around)
    builtins.__import__ = around["timed_import"]


def startup(out: Path, events: Any) -> None:
    """In a notebook's kernel: `events` of IPython."""
    begin(out)
    numbers = itertools.count(1)
    running: list[str] = []

    def before(*_: object) -> None:
        running.append(f"cell {next(numbers)}")
        enter(running[-1])

    events.register("pre_run_cell", before)
    events.register("post_run_cell", lambda *_: leave(running[-1]) if running else None)


def main() -> None:
    out, sys.argv = Path(sys.argv[1]), sys.argv[2:]
    begin(out)
    script = Path(sys.argv[0])
    sys.path[0] = str(script.parent)
    source = script.read_text()
    lines = {number for number, line in enumerate(source.splitlines(), 1) if line.endswith(CLOCKED)}
    tree = Timed(lines).visit(ast.parse(source))
    module = sys.modules["__main__"]
    vars(module).update({"__name__": "__main__", "__file__": str(script), "_clock_enter": enter, "_clock_leave": leave})
    exec(compile(tree, str(script), "exec"), vars(module))


if __name__ == "__main__":
    main()
