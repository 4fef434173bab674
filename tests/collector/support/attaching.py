"""A program that was started plainly, and `aiflame attach` of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recording import PYTHON

import aiflame
from aiflame.api import Profile

Answer = dict[str, Any]


class Program:
    """It prints `begun`, and then answers each line of its input with a line of JSON; after `end` it prints `ended` and ends."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        without_us = {name: value for name, value in os.environ.items() if name not in ("AIFLAME_PROFILE", "LD_PRELOAD")}
        self._process = subprocess.Popen(
            [PYTHON, *map(str, command)],
            env={**without_us, **(env or {})},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        line = self._read()
        assert line == "begun\n", (line, self.kill())

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def ask(self, what: str = "count") -> Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
            answer: Answer = json.loads(self._read())
        except (BrokenPipeError, json.JSONDecodeError):
            raise AssertionError(f"the program has ended: {self.kill()}") from None
        return answer

    def end(self) -> Answer:
        """Its last answer. It must end well, and have written nothing else."""
        answer = self.ask("end")
        output, errors = self._process.communicate(timeout=60)
        assert (self._process.returncode, output, errors) == (0, "ended\n", "")
        return answer

    def kill(self) -> str:
        """Its standard error."""
        if self._process.returncode is not None:
            return ""
        self._process.kill()
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin = None
        return self._process.communicate()[1]

    def facts(self) -> dict[str, int]:
        """Its memory in kB, mapped areas, threads, open files."""
        process = Path(f"/proc/{self.pid}")
        lines = (process / "status").read_text().splitlines()
        status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        return {
            "size_kb": int(status["VmSize"][0]),
            "resident_kb": int(status["VmRSS"][0]),
            "areas": len((process / "maps").read_text().splitlines()),
            "threads": int(status["Threads"][0]),
            "files": len(list((process / "fd").iterdir())),
        }


def _command(pid: int, path: Path) -> list[str]:
    return [PYTHON, "-m", "aiflame.cli.main", "attach", str(pid), "-o", str(path), "--no-seal", "--telemetry", "off"]


def begin_attaching(pid: int, path: Path) -> subprocess.Popen[str]:
    """Ctrl-C ends it."""
    return subprocess.Popen(_command(pid, path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def attach(pid: int, path: Path, seconds: float, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*_command(pid, path), "--duration", f"{seconds}s", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def attached(program: Program, path: Path, seconds: float, *options: str) -> Profile:
    result = attach(program.pid, path, seconds, *options)
    assert result.returncode == 0, (result.stderr, program.kill())
    return aiflame.open(path)


def device_notes(profile: Profile) -> list[str]:
    return [text for text in profile.table("notes")["text"] if any(word in text for word in ("GPU", "CUDA", "CUPTI"))]
