"""Runs a Python program, and says how much CPU time some of its lines take by clocks of its own process.

    healthy_clock.py OUT.jsonl FILE:LINE[,FILE:LINE…] SCRIPT [ARGUMENT …]

The smallest statement that holds a line is put between two readings of the process's CPU clock (all its threads) when its file is
compiled; SCRIPT has these lines. Garbage collections and imports are timed, too: by `gc.callbacks`, and around the outermost `import`.
Each process writes a JSON line with seconds; children of forks write their own.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import gc
import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

CLOCK = time.process_time
EVERY_S = 0.2

took: dict[str, float] = defaultdict(float)
begun: dict[tuple[str, int], float] = {}
depth: dict[tuple[str, int], int] = defaultdict(int)
state = {"pid": os.getpid(), "written": 0.0}


def enter(what: str) -> None:
    key = (what, threading.get_ident())
    depth[key] += 1
    if depth[key] == 1:
        begun[key] = CLOCK()


def leave(what: str) -> None:
    key = (what, threading.get_ident())
    depth[key] -= 1
    if depth[key] == 0:
        if state["pid"] != os.getpid():  # forked since
            state["pid"] = os.getpid()
            took.clear()
        took[what] += CLOCK() - begun[key]
        if CLOCK() - state["written"] > EVERY_S:
            write()


def write() -> None:
    """The last line of a process counts."""
    state["written"] = CLOCK()
    with OUT.open("a") as out:
        out.write(json.dumps({"pid": os.getpid(), "cpu_s": CLOCK(), "took": took}) + "\n")


class Clocked(ast.NodeTransformer):
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
    (enter if phase == "start" else leave)("garbage collection")


# As if it were the importer's own: places of imports are then those of the program.
IMPORT = """
def timed_import(*values, **named):
    enter("imports")
    try:
        return imported(*values, **named)
    finally:
        leave("imports")
"""


OUT, LINES, SCRIPT = Path(sys.argv[1]), {int(one.rpartition(":")[2]) for one in sys.argv[2].split(",") if one}, Path(sys.argv[3])
imported = builtins.__import__
if __name__ == "__main__":
    sys.argv = sys.argv[3:]
    sys.path[0] = str(SCRIPT.parent)
    atexit.register(write)
    gc.callbacks.append(of_collections)
    around: dict[str, Any] = {"enter": enter, "leave": leave, "imported": imported}
    exec(compile(IMPORT, "<frozen importlib._clock>", "exec"), around)
    builtins.__import__ = around["timed_import"]
    tree = Clocked(LINES).visit(ast.parse(SCRIPT.read_text()))
    module = sys.modules["__main__"]
    names = {"__name__": "__main__", "__file__": str(SCRIPT), "_clock_enter": enter, "_clock_leave": leave}
    vars(module).update(names)
    exec(compile(tree, str(SCRIPT), "exec"), vars(module))
