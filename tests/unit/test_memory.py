"""What is set of allocators, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aiflame

PROGRAM = """
import os, sys
from aiflame.cli.main import main
sys.argv = ["aiflame", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(os.environ.get("_RJEM_MALLOC_CONF", ""))
"""


def conf(*arguments: str, **environment: str) -> str:
    sources = Path(aiflame.__file__).parents[1]
    known = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**known, "PYTHONPATH": str(sources), **environment},
    )
    return run.stdout.splitlines()[-1]


@pytest.mark.parametrize("command", ["report", "timeline"])
def test_commands_over_large_tables_keep_what_polars_frees(command: str) -> None:
    """Polars adds what it finds to its own when it is loaded: ours was there before, and comes last."""
    assert conf(command, "--help").endswith(",dirty_decay_ms:5000")


def test_others_leave_it_as_it_is() -> None:
    assert "5000" not in conf("top", "--help")


def test_what_a_person_has_set_counts() -> None:
    assert conf("report", "--help", _RJEM_MALLOC_CONF="dirty_decay_ms:1").endswith("dirty_decay_ms:1")
