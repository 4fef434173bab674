"""The code objects of tests/unit/data/amd, and LLVM's reading of them."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

DATA = Path(__file__).parents[2] / "data/amd"
TRITON = tuple(f"matmul_silu.{architecture}" for architecture in ("gfx942", "gfx950", "gfx1100", "gfx1200"))
SCALE = "scale.gfx90a"
ALL = (*TRITON, SCALE)


def hsaco(name: str) -> bytes:
    return (DATA / f"{name}.hsaco").read_bytes()


def listing(name: str) -> str:
    """The output of llvm-objdump."""
    return _text(f"{name}.dis.gz")


def instructions(name: str) -> list[tuple[int, str]]:
    """Address and text, with the place to which an instruction jumps."""
    rows = re.findall(r"^\t(.+?) *// ([0-9A-F]{12}): [0-9A-F ]+?(?: (<.+>))?$", listing(name), re.MULTILINE)
    return [(int(address, 16), f"{text} {target}".rstrip()) for text, address, target in rows]


def chains(name: str) -> dict[int, list[tuple[str, str, int]]]:
    """(function, file name, line) of each instruction's chain, outermost first."""
    answers = {}
    for row in _text(f"{name}.lines.gz").splitlines():
        address, *places = row.split()
        parts = [place.split(":") for place in reversed(places)]
        answers[int(address, 16)] = [(function, file, int(line)) for function, file, line in parts]
    return answers


def assembly(name: str) -> str:
    """The assembly from which Triton made it."""
    return _text(f"{name}.amdgcn.gz")


def _text(name: str) -> str:
    return gzip.decompress((DATA / name).read_bytes()).decode()


def fake_objdump(folder: Path, body: str) -> Path:
    """A program in the place of llvm-objdump: Python, with `path` of the file and its `name` among those here, if it is one."""
    tool = folder / "llvm-objdump"
    names = {hashlib.sha256(hsaco(name)).hexdigest(): name for name in ALL}
    head = f"import gzip, hashlib, os, sys, time\nfrom pathlib import Path\npath = sys.argv[-1]\nnames = {names!r}\n"
    naming = "name = names.get(hashlib.sha256(Path(path).read_bytes()).hexdigest(), '')\n"
    show = f"def show():\n    print(gzip.decompress(Path({str(DATA)!r}, name + '.dis.gz').read_bytes()).decode())\n"
    tool.write_text(f"#!/usr/bin/env python3\n{head}{naming}{show}{body}\n")
    tool.chmod(0o755)
    return tool
