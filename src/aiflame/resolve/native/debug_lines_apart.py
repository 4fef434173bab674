"""Looks up lines of a binary from a profile in a separate process.

A malicious file can make `symbolic` end its process: functions nested a hundred thousand deep exhaust the stack, a section that claims to
unpack to a terabyte exhausts the memory.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import astuple
from pathlib import Path
from typing import IO

from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.native.debug_lines import DebugLines, SourceLine

_PROGRAM = "import sys; sys.path[:] = {path!r}; from aiflame.resolve.native.debug_lines_apart import answer; answer()"
_SECONDS = 600
_BOUNDS = {resource.RLIMIT_AS: 8 << 30, resource.RLIMIT_CPU: 120, resource.RLIMIT_FSIZE: 256 << 20, resource.RLIMIT_CORE: 0}
_LONGEST_TEXT = 64 << 10


def chains_apart(elf: ElfFile, addresses: list[int]) -> list[list[SourceLine]] | None:
    """The result of `DebugLines.lookup` for each address; None if the other process did not finish."""
    content = elf.content()
    if isinstance(content, bytes):
        return None
    # If we run inside a recorded program, our child processes must not be recorded.
    variables = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "AIFLAME_PROFILE")}
    command = [sys.executable, "-c", _PROGRAM.format(path=[str(Path(folder).absolute()) for folder in sys.path])]
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
        asked.write(json.dumps([content, addresses]).encode())
        asked.seek(0)
        try:
            result = subprocess.run(
                command,
                stdin=asked,
                stdout=said,
                stderr=subprocess.DEVNULL,
                pass_fds=[content],
                env=variables,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return _read(said, len(addresses)) if result.returncode == 0 else None


def answer() -> None:
    """Runs in the other process: reads the addresses from its input, and writes the places."""
    for bound, most in _BOUNDS.items():
        hard = resource.getrlimit(bound)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(bound, (most, most))
    descriptor, addresses = json.load(sys.stdin)
    lines = DebugLines(ElfFile(descriptor))
    places = ([_short(place) for place in lines.lookup(address)] for address in addresses)
    for chain in places:
        print(json.dumps([astuple(place) for place in chain]))


def _short(place: SourceLine) -> SourceLine:
    return SourceLine(place.name[:_LONGEST_TEXT], place.file[:_LONGEST_TEXT], place.line, place.cplusplus)


def _read(said: IO[bytes], count: int) -> list[list[SourceLine]] | None:
    said.seek(0)
    chains = [[SourceLine(*place) for place in json.loads(line)] for line in said]
    return chains if len(chains) == count else None
