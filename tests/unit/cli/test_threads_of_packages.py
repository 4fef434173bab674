"""Packages that start a thread for each core when they are imported start none in our commands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aiflame.imported_with import ONE_BLAS_THREAD, imported_with

PROGRAM = """
import os
from aiflame.cli.commands import load
load("top")
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def threads_and_variable(own: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ONE_BLAS_THREAD}
    environment |= {name: own for name in ONE_BLAS_THREAD if own}
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True).stdout.split()


def test_a_command_needs_one_thread_and_leaves_the_users_variable() -> None:
    """On one processor it would start no more anyway."""
    threads, variable = threads_and_variable("")
    assert variable == "None"
    assert threads_and_variable("1") == [threads, "1"]
    assert threads_and_variable("7") == [threads, "7"]


def test_variables_are_as_before_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIFLAME_ONE", "before")
    monkeypatch.delenv("AIFLAME_TWO", raising=False)
    with pytest.raises(KeyError), imported_with({"AIFLAME_ONE": "1", "AIFLAME_TWO": "2"}):
        assert os.environ["AIFLAME_ONE"] == "1" and os.environ["AIFLAME_TWO"] == "2"
        raise KeyError
    assert os.environ["AIFLAME_ONE"] == "before" and "AIFLAME_TWO" not in os.environ
