"""Stored code objects, against the code objects themselves: scenarios of python_scenarios.py."""

from __future__ import annotations

import gc
import importlib
import random
import sys
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from python_reader import Code, Reader, code_of, lines

MODULES: tuple[str, ...] = ("argparse", "asyncio", "concurrent.futures", "decimal", "email.message", "http.client", "logging.config")
MODULES += ("multiprocessing.pool", "unittest.mock", "xml.dom.minidom")


def library_codes() -> list[types.CodeType]:
    """Code objects of many modules, with those inside them."""
    for module in MODULES:
        importlib.import_module(module)
    by_id: dict[int, types.CodeType] = {}

    def add(code: types.CodeType) -> None:
        if id(code) not in by_id:
            by_id[id(code)] = code
            for constant in code.co_consts:
                if isinstance(constant, types.CodeType):
                    add(constant)

    for candidate in gc.get_objects():
        if isinstance(candidate, types.FunctionType):
            add(candidate.__code__)
    return list(by_id.values())


def codes(reader: Reader) -> dict[str, object]:
    """Names and line tables as they are copied and decoded."""
    all_codes = library_codes()
    for name in ("grün", "名前", "𝒳𝒴", "é" * 900, "f" * 5000):
        namespace: dict[str, Any] = {}
        exec(compile(f"def {name}(): return 1", f"/tmp/Straße-{name[:3]}-\udcff.py", "exec"), namespace)
        all_codes.append(namespace[list(namespace)[-1]].__code__)
    rows_of = [(code, reader.code_id(code)) for code in all_codes]
    rows = reader.codes()
    wrong_names: list[str] = []
    wrong_lines: list[str] = []
    ranges = 0
    for code, row in rows_of:
        want = code_of(code)
        want = Code(want.first_line, want.filename, want.qualname[:4096], want.linetable, want.python)
        if rows[row] != want:
            wrong_names.append(f"{rows[row]} is not {want}"[:300])
        row_of_code = rows[row]
        for start, end, line in code.co_lines():
            ranges += 1
            read = {
                lines.line_of(row_of_code.linetable, row_of_code.first_line, offset, row_of_code.python) for offset in range(start, end, 2)
            }
            if read - {line or 0}:
                wrong_lines.append(f"{code} at {start}: {read}, not {line}")
    return {"codes": len(rows_of), "names": wrong_names[:5], "ranges": ranges, "lines": wrong_lines[:5]}


def reuse(reader: Reader) -> dict[str, object]:
    """Code that comes and goes at the same addresses: an id never stands for two different ones."""
    random.seed(1)
    meanings: dict[int, set[tuple[object, ...]]] = {}
    last: dict[int, tuple[object, ...]] = {}
    reuses = 0

    def copied(code: types.CodeType) -> tuple[object, ...]:
        """Nothing of this keeps a part of the code object alive."""
        want = code_of(code)
        return want.first_line, want.filename.encode(), want.qualname.encode(), bytes(bytearray(want.linetable))

    def record(code: types.CodeType) -> None:
        nonlocal reuses
        meaning = copied(code)
        meanings.setdefault(reader.code_id(code), set()).add(meaning)
        reuses += last.get(id(code), meaning) != meaning
        last[id(code)] = meaning

    def source(variant: int) -> str:
        return (
            f"def f{variant % 2}(x):\n" + "".join(f" x={number}\n" + "\n" * (variant % 3 == number) for number in range(3)) + " return x\n"
        )

    template = [compile(source(variant), "<made>", "exec").co_consts[0] for variant in (0, 2, 4)]
    for _ in range(6000):
        namespace: dict[str, Any] = {}
        exec(compile(source(random.randrange(6)), "<made>", "exec"), namespace)
        record(namespace.popitem()[1].__code__)
        # The same again, but for its line table.
        record(template[0].replace(co_linetable=bytes(bytearray(random.choice(template).co_linetable))))
    rows = reader.codes()
    wrong = [
        row
        for row, meant in meanings.items()
        if meant != {(rows[row].first_line, rows[row].filename.encode(), rows[row].qualname.encode(), rows[row].linetable)}
    ]
    return {"reuses": reuses, "wrong": len(wrong)}
