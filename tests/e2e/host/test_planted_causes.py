"""A planted fault is named with its line and its share. A program that only looks like it is silent."""

from __future__ import annotations

import pytest
from recording import PROGRAMS, PYTHON, Recorder, all_findings

from aiflame.analyze.findings.host_causes import BY_KIND

PROGRAM = PROGRAMS / "planted_causes.py"
RATE = ("--cpu-rate", "499")
PLANTED = {
    "list-search": "membership",
    "list-front": "front",
    "string-building": "building",
    "gc": "collecting",
    "json": "encoding",
    "pickle": "pickling",
    "logging": "logs",
    "printing": "prints",
    "deep-copy": "deep",
    "regex-compile": "compiling",
    "imports": "importing",
}
NEAR_MISSES = ("membership_of_a_set", "front_of_a_deque", "joining", "freed_at_once", "writes", "shallow", "matching")
LITTLE = ("encoding", "pickling", "logs")


def causes(record: Recorder, *program: object) -> dict[str, tuple[int, float, str]]:
    """By kind: the place in the list of findings, the share, and the line."""
    run = record(PYTHON, *program, options=RATE)
    assert run.status == 0, run.stderr
    listed = all_findings(run.profile())
    return {one.kind: (number, one.share, one.view.place) for number, one in enumerate(listed)}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_cause_is_among_the_first_three_sentences(record: Recorder, kind: str) -> None:
    at, share, place = causes(record, PROGRAM, 0.7, PLANTED[kind])[kind]
    assert at < 3
    assert 0.35 < share < 0.9  # garbage that the cause makes is another cause
    file, _, line = place.rpartition(":")
    assert file == str(PROGRAM)
    # A collection begins wherever an object is made.
    assert kind == "gc" or PROGRAM.read_text().splitlines()[int(line) - 1].endswith("# planted")


@pytest.mark.parametrize(("share", "functions"), [(0.95, NEAR_MISSES), (0.09, LITTLE)], ids=["near", "little"])
def test_a_near_miss_is_not_named(record: Recorder, share: float, functions: tuple[str, ...]) -> None:
    assert causes(record, PROGRAM, share, *functions).keys() & BY_KIND.keys() == set()


@pytest.mark.parametrize(("rounds", "named"), [(1, True), (20_000_000, False)])
def test_many_interpreters_that_start_for_little_work_are_named(record: Recorder, rounds: int, named: bool) -> None:
    """As many as take 1.8 s of CPU time: a machine of 100 ticks a second then takes 180 samples."""
    program = f"""
import os, subprocess, sys
while os.times().children_user + os.times().children_system < 1.8:
    subprocess.run([sys.executable, '-c', 'for _ in range({rounds}): pass'], check=True)
"""
    kinds = causes(record, "-c", program)
    assert ("interpreter-start" in kinds) == named


@pytest.mark.parametrize(("item", "named"), [("[float(i)] * 64", True), ("row", False)])
def test_items_that_are_slow_to_put_together(record: Recorder, item: str, named: bool) -> None:
    """Beside a step of their own, which takes long where items are tensors."""
    pytest.importorskip("torch")
    program = f"""
import time, torch
from torch.utils.data import DataLoader
row = torch.ones(64)
class Items:
    def __len__(self): return 1 << 30
    def __getitem__(self, i): return {item}
begin = time.process_time()
for batch in DataLoader(Items(), batch_size=64):
    if not {named}: sum(range(200_000))
    if time.process_time() - begin > 2.5: break
"""
    assert ("collate" in causes(record, "-c", program)) == named


def test_a_program_that_python_runs_as_a_module_is_no_import(record: Recorder) -> None:
    run = record("env", f"PYTHONPATH={PROGRAMS}", PYTHON, "-m", PROGRAM.stem, "0.7", "encoding", options=RATE)
    assert run.status == 0, run.stderr
    kinds = {one.kind for one in all_findings(run.profile())}
    assert "json" in kinds and "imports" not in kinds


def test_a_line_whose_time_has_a_cause_is_not_named_again(record: Recorder) -> None:
    assert "hot-line" not in causes(record, PROGRAM, 0.9, "membership")


def test_every_cause_but_those_that_need_other_programs_is_planted() -> None:
    assert BY_KIND.keys() - PLANTED.keys() == {"dataframe-growth", "interpreter-start", "collate"}
