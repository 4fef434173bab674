"""A Python program in a container: it has other files and other numbers of processes than we."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recording import PYTHON

PROGRAMS = Path(__file__).parent / "programs"


class Contained:
    def __init__(self, folder: Path, program: str, *arguments: str, answers: dict[int, int] | None = None) -> None:
        """Skips the test where the system makes no namespaces. `answers`: of a filter of system calls."""
        folder.mkdir()
        command = [
            PYTHON,
            "-I",
            str(PROGRAMS / "in_container.py"),
            str(folder),
            sys.base_prefix,
            json.dumps(answers or {}),
            str(PROGRAMS / program),
            *arguments,
        ]
        self._outside = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._outside.stdout is not None
        line = self._outside.stdout.readline()
        if line.startswith("refused"):
            self._outside.communicate()
            pytest.skip(f"this system makes no container for a test ({line.strip()})")
        assert line == "begun\n", self._outside.communicate()
        children = Path(f"/proc/{self._outside.pid}/task/{self._outside.pid}/children")
        self.pid = int(children.read_text())
        """Here; in its container it is 1."""

    def facts(self) -> dict[str, object]:
        """All that a recording might leave in the process and its files, for a comparison."""
        process = Path(f"/proc/{self.pid}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
        names = ("Threads", "TracerPid", "SigBlk", "SigCgt", "SigIgn")
        files = sorted(str(path) for top in ("srv", "tmp") for path in (process / "root" / top).rglob("*"))
        return {
            **{name: status[name] for name in names},
            "files": sorted(entry.name for entry in (process / "fd").iterdir()),
            "timers": (process / "timers").read_text(),
            "top": sorted(entry.name for entry in (process / "root").iterdir()),
            "below": files,
        }

    def mapped(self) -> int:
        """How many times the collector is loaded."""
        lines = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        return sum("libaiflame.so" in line and " r-xp " in line for line in lines)

    def end(self) -> dict[str, Any]:
        os.kill(self.pid, signal.SIGTERM)
        output, errors = self._outside.communicate(timeout=60)
        assert (self._outside.returncode, errors) == (7, "")
        answer: dict[str, Any] = json.loads(output)
        return answer

    def close(self) -> None:
        self._outside.kill()
        self._outside.communicate()
