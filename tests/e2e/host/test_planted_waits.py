"""A planted wait is named with its line and its share, with `--wall` and without. A program that is idle, or hardly waits, is silent."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from recording import PYTHON, Run, all_findings, recorder

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.waiting import LEAST_SHARE

pytestmark = pytest.mark.timed

PROGRAM = Path(__file__).parent / "programs/planted_waits.py"
SECONDS = 3
"""Of ten looks each: half as many again as a finding needs."""
TOGETHER = (
    ("sleeping", "locked", "reading", "blocking", "awaiting"),  # they hardly use a CPU
    ("locked_apart", "idling", "joining", "child"),  # they wait for the same, however much of the CPU they have
)
"""Recorded at the same time."""
PLANTED = {
    "sleeping": "waiting-sleep",
    "locked": "waiting-lock",
    "reading": "waiting-io",
    "syncing": "waiting-io",
    "blocking": "loop-blocked",
}
NEAR_MISSES = ("sleeping_little", "locked_apart", "reading_what_is_there", "awaiting", "idling", "joining", "child")
WAYS = {"looks": (), "wall": ("--wall", "99")}
Waits = Callable[..., tuple["Account", dict[str, tuple[int, Finding]]]]


class Account(NamedTuple):
    """The program's own account: parts of its time."""

    waited: float
    away: float
    """It waited, or had no CPU in the same calls."""

    def fits(self, named: float, way: str) -> bool:
        """To wall-clock samples, a thread that is awake again and waits for a CPU still stands in its call. Looks leave that time out."""
        return self.waited - 0.15 < named < (self.away if way == "wall" else self.waited) + 0.15


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Waits:
    """The program's account, and by kind: the place in the list, and the finding. Each program runs once each way."""

    def record(function: str, way: str, folder: Path) -> Run:
        return recorder(folder)(PYTHON, PROGRAM, function, SECONDS, options=WAYS[way])

    @cache
    def group(functions: tuple[str, ...], way: str) -> dict[str, Run]:
        folders = [tmp_path_factory.mktemp(function) for function in functions]
        with ThreadPoolExecutor(len(functions)) as pool:
            runs = pool.map(lambda function, folder: record(function, way, folder), functions, folders)
            return dict(zip(functions, runs, strict=True))

    def found(function: str, way: str) -> tuple[Account, dict[str, tuple[int, Finding]]]:
        run = group(next((group for group in TOGETHER if function in group), (function,)), way)[function]
        assert run.status == 0, run.stderr
        listed = all_findings(run.profile())
        kinds = {one.kind: (number, one) for number, one in enumerate(listed) if one.kind.startswith(("waiting-", "loop-"))}
        return Account(*map(float, run.stdout.split())), kinds

    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", PLANTED)
def test_a_planted_wait_is_among_the_first_three_sentences(waits: Waits, function: str, way: str) -> None:
    account, kinds = waits(function, way)
    if account.waited < 0.2:
        pytest.skip("it hardly waited: the disk is quick, or other programs have the CPUs")
    number, finding = kinds[PLANTED[function]]
    assert number < 3
    assert account.fits(finding.share, way)
    file, _, line = finding.view.place.rpartition(":")
    assert file == str(PROGRAM)
    assert PROGRAM.read_text().splitlines()[int(line) - 1].endswith("# planted")


@pytest.mark.parametrize("way", WAYS)
def test_a_lock_names_who_held_it(waits: Waits, way: str) -> None:
    _, kinds = waits("locked", way)
    sentence = kinds["waiting-lock"][1].sentence
    assert sentence.startswith("The main thread waits for a lock ")
    assert re.search(r"held by thread saver(, most)? in saves\(\) \(planted_waits\.py:", sentence)


@pytest.mark.parametrize("way", WAYS)
def test_threads_that_want_the_gil_have_it_in_turns(waits: Waits, way: str) -> None:
    account, kinds = waits("contending", way)
    if "waiting-gil" not in kinds and account.waited < LEAST_SHARE + 0.15:
        pytest.skip("other programs have the CPUs: its threads hardly wait for each other")
    finding = kinds["waiting-gil"][1]
    assert account.fits(finding.share, way)
    assert "held in turns by 2 threads in computes()" in finding.sentence


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", NEAR_MISSES)
def test_a_near_miss_is_not_named(waits: Waits, function: str, way: str) -> None:
    assert waits(function, way)[1] == {}


@pytest.mark.parametrize("way", WAYS)
def test_a_data_loader_with_too_few_workers(waits: Waits, way: str) -> None:
    pytest.importorskip("torch")
    account, kinds = waits("loading", way)
    finding = kinds["waiting-data"][1]
    assert account.fits(finding.share, way)
    assert re.search(
        r"DataLoader( or for a CPU)? \d+% of the time at planted_waits\.py:\d+: its only worker is busy (9\d|100)% of it$", finding.sentence
    )
    assert waits("loading_ahead", way)[1] == {}
