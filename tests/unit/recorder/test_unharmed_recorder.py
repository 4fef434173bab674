"""The recorder stays with its program: forked children and unread lines do not end a recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import aiflame

FORKS = """
import os, sys, time
import aiflame
with aiflame.record(sys.argv[1]):
    if os.fork() == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
    end = time.process_time() + 0.8
    while time.process_time() < end: pass
"""


def test_a_forked_child_that_leaves_the_block_does_not_end_its_parents_recording(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKS, str(tmp_path / "p")], check=True, timeout=60)
    samples = aiflame.open(tmp_path / "p").table("cpu_samples")
    assert (samples["weight"].cast(int) * samples["period_ns"].cast(int)).sum() > 0.4e9


def test_where_nobody_reads_its_lines_the_recorder_goes_on(tmp_path: Path) -> None:
    """The recording becomes too large while the program runs, and a line would say so."""
    reader, writer = os.pipe()
    os.close(reader)
    program = ["sh", "-c", "sleep 1; echo done; exit 7"]
    command = [sys.executable, "-m", "aiflame", "record", "-o", str(tmp_path / "p"), "--max-size", "40k", "--", *program]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=writer, check=False, timeout=60)
    os.close(writer)
    assert (ended.returncode, ended.stdout) == (7, b"done\n")
