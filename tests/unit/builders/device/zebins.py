"""The zebins of tests/unit/data/intel, and other programs' texts about them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from aiflame.resolve.device.iga import libraries
from aiflame.resolve.device.zebin import Zebin

INTEL = Path(__file__).parents[2] / "data/intel"
DRIVER = Path(os.environ.get("AIFLAME_INTEL_DRIVER", Path(__file__).parents[4] / ".venv/intel-driver"))
_INSTRUCTION = re.compile(r"/\* \[([0-9A-F]+)\]  \*/ (.*)")
_ROW = re.compile(r"(0x[0-9a-f]+) +(\d+) +\d+ .*?(end_sequence)?\s*")


def zebin(name: str) -> Zebin:
    code = Zebin.of_bytes((INTEL / name).read_bytes())
    assert code is not None, name
    return code


def disassemblers() -> list[Path]:
    """Those of this machine, and the one that comes with the driver for tests."""
    return [*libraries(), *sorted(DRIVER.glob("usr/lib/*/libiga64.so.2"))]


def iga64(name: str) -> list[tuple[int, str]]:
    """Offset and text of each instruction, as `iga64` printed them, with single spaces. A jump has the distance to its target."""
    lines = (INTEL / f"{name}.iga.txt").read_text().splitlines()
    return [(int(match[1], 16), " ".join(match[2].split())) for line in lines if (match := _INSTRUCTION.match(line))]


def rows(name: str) -> list[list[tuple[int, int]]]:
    """The rows (address, line) of each sequence in the order of llvm-dwarfdump's output; the last one is the end."""
    sequences: list[list[tuple[int, int]]] = [[]]
    for line in (INTEL / f"{name}.lines.txt").read_text().splitlines():
        if match := _ROW.fullmatch(line):
            sequences[-1].append((int(match[1], 16), int(match[2])))
            if match[3]:
                sequences.append([])
    return sequences[:-1]


def line_of(source: str, text: str) -> int:
    """The number of the only line that contains a text."""
    lines = (INTEL / source).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number
