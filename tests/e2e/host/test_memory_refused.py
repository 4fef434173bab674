"""An allocation of host memory that fails and ends the program: `record` ends with the line that asked, and the largest holder."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import PYTHON, all_findings, recorder
from torch_programs import needs_torch, program

MIB = 1 << 20
KEPT = 200 * MIB
FULL = f"""
import resource


def load(kept):
    for _ in range(10):
        kept.append(bytearray({KEPT // 10}))


def ask(kept):
    while True:
        kept.append(bytearray({40 * MIB}))


kept = []
load(kept)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + {60 * MIB}, resource.RLIM_INFINITY))
"""
ASKS = FULL.splitlines().index(f"        kept.append(bytearray({40 * MIB}))") + 1
LOADS = FULL.splitlines().index(f"        kept.append(bytearray({KEPT // 10}))") + 1


@pytest.mark.parametrize("option", ["--cpu-rate=99", "--findings"])
def test_the_last_line_names_the_line_that_asked_and_the_largest_holder(tmp_path: Path, option: str) -> None:
    run = recorder(tmp_path, sealed=True)(PYTHON, program(tmp_path, FULL + "ask(kept)\n"), options=("--host-memory", option))
    assert run.status == 1
    assert "MemoryError" in run.stderr
    sentence = f"the host had no 40 MiB for ask() (program.py:{ASKS}): "
    held = f"% of them from load() (program.py:{LOADS})"
    if option != "--findings":
        (line,) = [line for line in run.stderr.splitlines() if line.startswith(f"aiflame: {sentence}")]
        assert held in line and f"aiflame flame --at oom {run.path}" in line
    (finding,) = [one for one in all_findings(run.profile()) if one.kind == "memory-refused"]
    assert finding.sentence.startswith(sentence) and held in finding.sentence
    assert run.profile().tree("host-bytes@oom").total("host-bytes@oom") >= KEPT


CAUGHT = """
try:
    ask(kept)
except MemoryError:
    kept.clear()
    print("caught")
"""
ENDS = """
resource.setrlimit(resource.RLIMIT_AS, (now + 2 * 40 * (1 << 20), resource.RLIM_INFINITY))


def ends():
    return bytearray(1 << 33)


ends()
"""


def test_an_error_that_the_program_caught_is_kept_with_the_bytes_of_its_moment(tmp_path: Path) -> None:
    run = recorder(tmp_path, sealed=True)(PYTHON, program(tmp_path, FULL + CAUGHT), options=("--host-memory",))
    assert (run.status, run.stdout) == (0, "caught\n"), run.stderr
    sentence = f"the host had no 40 MiB for ask() (program.py:{ASKS}): "
    assert f"aiflame: {sentence}" in run.stderr and f"% of them from load() (program.py:{LOADS})" in run.stderr
    (finding,) = [one for one in all_findings(run.profile()) if one.kind == "memory-refused"]
    assert finding.sentence.startswith(sentence)
    assert run.profile().tree("host-bytes@oom").total("host-bytes@oom") >= KEPT


def test_the_error_that_ended_the_program_goes_before_one_that_it_caught(tmp_path: Path) -> None:
    run = recorder(tmp_path, sealed=True)(PYTHON, program(tmp_path, FULL + CAUGHT + ENDS), options=("--host-memory",))
    assert run.status == 1
    assert "aiflame: the host had no 8 GiB for ends() (program.py:" in run.stderr
    assert run.profile().tree("host-bytes@oom").total("host-bytes@oom") < KEPT


@needs_torch
def test_torchs_error_says_how_much_was_asked_for(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef ask():\n    return torch.empty(1 << 44)\n\n\nask()\n"
    run = recorder(tmp_path, sealed=True)(PYTHON, program(tmp_path, text), options=("--host-memory",))
    assert "aiflame: the host had no 64 TiB for ask() (program.py:5): " in run.stderr
    assert run.status == 1


def test_one_rank_names_the_command_that_reads_all_ranks(tmp_path: Path) -> None:
    rank = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job"}
    run = recorder(tmp_path, sealed=True)(PYTHON, program(tmp_path, FULL + "ask(kept)\n"), options=("--host-memory",), env=rank)
    assert f"memory ran out: aiflame findings {run.path} names the largest holder" in run.stderr
    (finding,) = [one for one in all_findings(run.profile()) if one.kind == "memory-refused"]
    assert f"for ask() (program.py:{ASKS})" in finding.sentence


def test_a_raw_profile_names_the_command_that_says_it(tmp_path: Path) -> None:
    run = recorder(tmp_path)(PYTHON, program(tmp_path, FULL + "ask(kept)\n"), options=("--host-memory",))
    assert f"aiflame: memory ran out: aiflame findings {run.path} names the largest holder" in run.stderr
