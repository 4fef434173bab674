"""A table whose pages the file system cannot give any more ends the recording, not the program."""

from __future__ import annotations

import sys
from pathlib import Path

from live import plain, recorded

CUT_OFF = """
import glob, os, sys, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
spin(0.3)
folder = os.environ.get("AIFLAME_PROFILE")
tables = glob.glob(f"{folder}/spool/*/cpu_samples.table") if folder else []
for table in tables:
    os.truncate(table, 0)
spin(0.3)
print(len(tables))
sys.exit(7)
"""


def test_a_program_outlives_its_tables(tmp_path: Path) -> None:
    alone, accompanied = plain([sys.executable, "-c", CUT_OFF], tmp_path), recorded([sys.executable, "-c", CUT_OFF], tmp_path / "p")
    assert alone.stdout == "0\n"
    assert accompanied.stdout == "1\n", "the table was there"
    assert (accompanied.status, accompanied.stderr) == (alone.status, alone.stderr) == (7, "")
