"""A CPU program whose answer is known: line 5 of `main` calls `f`, which burns 80% of the time."""

from __future__ import annotations

from pathlib import Path

from profiles import Row, native, python, sealed
from small_program import symbol

from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile

MS = 1_000_000
PROGRAM, LIBRARY = "/app/prog.py", "/src/work.c"
MAIN_3, MAIN_5, F_9, F_10, IMPORTS = python(1, 4), python(1, 20), python(2, 4), python(2, 8), python(3, 4)
EVAL, LONG_ADD, WORK = native(1, 0x10), native(1, 0x20), native(2, 0x30)


def named(word: int, name: str, kind: Kind, file: str, line: int, module: str = "") -> Row:
    return symbol(word, name, kind, file=file, line=line, module=module)


SYMBOLS = [
    named(MAIN_3, "main", Kind.PYTHON, PROGRAM, 3),
    named(MAIN_5, "main", Kind.PYTHON, PROGRAM, 5),
    named(F_9, "f", Kind.PYTHON, PROGRAM, 9),
    named(F_10, "f", Kind.PYTHON, PROGRAM, 10),
    named(IMPORTS, "_find_and_load", Kind.PYTHON, "<frozen importlib._bootstrap>", 241),
    named(EVAL, "_PyEval_EvalFrameDefault", Kind.C, "/build/ceval.c", 700, "libpython3.11.so.1.0"),
    named(LONG_ADD, "x_add", Kind.C, "/build/longobject.c", 3000, "libpython3.11.so.1.0"),
    named(WORK, "work", Kind.C, LIBRARY, 30, "libwork.so"),
]
CODES = [
    {"id": 1, "qualname": "main", "filename": PROGRAM, "first_line": 1},
    {"id": 2, "qualname": "f", "filename": PROGRAM, "first_line": 8},
    {"id": 3, "qualname": "_find_and_load", "filename": "<frozen importlib._bootstrap>", "first_line": 230},
]


def profile(path: Path, **more: list[Row]) -> Profile:
    """80%: 30 at line 9 of `f`, 40 in C, 10 by calling itself; line 3 of `main` takes the other 20."""
    stacks = [
        {"parent": 0, "frame": EVAL},
        {"parent": 1, "frame": MAIN_3},
        {"parent": 2, "frame": EVAL},
        {"parent": 1, "frame": MAIN_5},
        {"parent": 4, "frame": EVAL},
        {"parent": 5, "frame": F_9},
        {"parent": 6, "frame": LONG_ADD},
        {"parent": 5, "frame": F_10},
        {"parent": 8, "frame": WORK},
        {"parent": 8, "frame": F_10},
    ]
    ticks = {2: 8, 3: 12, 6: 10, 7: 20, 9: 40, 10: 10}
    samples = [{"thread": 1, "stack": id, "weight": ms, "period_ns": MS} for id, ms in ticks.items()]
    return sealed(path / "p.aiflame", symbols=SYMBOLS, codes=CODES, stacks=stacks, cpu_samples=samples, **more)
