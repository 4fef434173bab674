"""A dump has the collector's table of layouts: both find the same in a recorded program."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from aiflame.dump import python_frames
from aiflame.dump.target import Target
from aiflame.profile.schema.interpreter_schema import SYMBOL
from aiflame.recorder.library import collector_file
from aiflame.recorder.looks.interpreter import Interpreter
from aiflame.recorder.looks.modules import symbol_in
from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.native.elf_symbols import ElfSymbols
from interpreters import VERSIONS, interpreter

TELLS_ITS_ID = "import os\nprint(os.getpid(), flush=True)\ninput()"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dump_and_the_collector_know_the_same_layout(version: str, tmp_path: Path) -> None:
    executable = interpreter(version)
    if executable is None:
        pytest.skip(f"Python {version} is not installed here")
    command = [sys.executable, "-m", "aiflame", "record", "-o", str(tmp_path / "p.aiflame"), "--", executable, "-c", TELLS_ITS_ID]
    recorder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert recorder.stdout is not None
    target = Target(int(recorder.stdout.readline()))
    try:
        own, note = python_frames.find(target)
        collector = target.modules.named(collector_file().name)
        assert own is not None, note
        assert collector is not None
        published = Interpreter.published(target.memory, collector.base + symbol_in(collector_file(), SYMBOL))
        assert published is not None
        assert own.layout.at == published.layout()
        assert own.addresses == {name: value for name, value in published.addresses().items() if name != "magic"}
    finally:
        target.close()
        recorder.communicate("\n")


def test_symbols_near_an_address_give_the_same_names() -> None:
    library = next((line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libpython" in line), sys.executable)
    elf = ElfFile.open(Path(library))
    assert elf is not None
    with closing(elf):
        whole = ElfSymbols(elf)
        symbols, _ = elf.symbols(".dynsym") or (None, None)
        assert symbols is not None
        starts = np.unique(symbols["value"][(symbols["info"] & 15 == 2) & (symbols["size"] > 1)])
        wanted = np.sort(np.random.default_rng(1).choice(starts, min(len(starts), 200), replace=False)) + np.uint64(1)
        assert ElfSymbols(elf, near=wanted).lookup(wanted) == whole.lookup(wanted)
        assert len(wanted) >= 10
        (one,) = ElfSymbols(elf, near=wanted[:1]).lookup(wanted[:1])
        assert one == whole.lookup(wanted[:1])[0]
