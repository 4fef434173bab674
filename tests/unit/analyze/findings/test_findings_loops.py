"""An event loop that computing holds up: long turns after which there was more to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import MAIN, Story, cpu_step
from story_findings import found

from aiflame.analyze.findings.loops import busy_loops
from aiflame.analyze.scope import analysis_of

CALLBACK = ("Handle._run", "/usr/lib/python3.12/asyncio/events.py")
HANDLER = ("handle", "/app/serve.py", 10)
PARSE = ("parse", "/app/parse.py", 33)
CELL = ("<module>", "/tmp/ipykernel_1/1612019488.py", 3)
LIBRARY = ("run_asgi", "/usr/lib/python3/site-packages/uvicorn/protocols/http.py", 5)
MS = 1_000_000
TURN = 200


def serving(*frames: object, due: int = 1, turns: int = 10, samples: int = 20, apart: int = 250) -> Story:
    """Turns of 200 ms, each followed by a wait."""
    story = Story()
    story.tables["loop_turns"] = []
    for turn in range(turns):
        begin = turn * apart
        for number in range(samples):
            story.met((begin + number * 10) * 1000, MAIN, *frames, clock=0, weight=2)
        if due >= 0:
            row = {"thread": 1, "due": due, "begin_ns": begin * MS - 20 * MS * (turn > 0), "end_ns": (begin + TURN) * MS}
            story.tables["loop_turns"].append(row)
    story.tables["thread_ends"] = [{"thread": 1, "end_ns": turns * apart * MS, "cpu_ns": 0}]
    return story


@pytest.mark.parametrize(
    ("frames", "sentence", "place"),
    [
        ((CALLBACK, HANDLER), "handle() (serve.py:10) computes on its thread", "/app/serve.py:10"),
        ((CALLBACK, LIBRARY, HANDLER, PARSE), "handle() computes on its thread, most in parse() (parse.py:33)", "/app/parse.py:33"),
    ],
)
def test_a_coroutine_that_computes(tmp_path: Path, frames: tuple[object, ...], sentence: str, place: str) -> None:
    finding = found(serving(*frames), tmp_path)["loop-computes"]
    assert finding.sentence == f"The event loop stands still 80% of the time, for 220 ms each time, while more is to do: {sentence}"
    assert finding.view.place == place


@pytest.mark.parametrize(
    "story",
    [
        serving(CALLBACK, HANDLER, due=0),
        serving(CALLBACK, HANDLER, due=-1),
        serving(HANDLER),
        serving(CALLBACK, CELL),
        serving(CALLBACK, HANDLER, samples=9),
        serving(CALLBACK, HANDLER, apart=2100),
        serving(CALLBACK, HANDLER, samples=3, turns=40),
    ],
    ids=["nobody waits", "short turns", "before the loop", "a notebook's cell", "few samples", "little", "turns that wait for a CPU"],
)
def test_near_misses(tmp_path: Path, story: Story) -> None:
    assert "loop-computes" not in found(story, tmp_path)


def in_steps(*, computing: bool) -> Story:
    """Five turns of 200 ms; from the third second on 8 steps of 250 ms, with as long turns in them if it is `computing` there."""
    story = Story()
    turns = [250 * number for number in range(5)]
    for begin in turns:
        for moment in range(20):
            story.met((begin + 10 * moment) * 1000, MAIN, CALLBACK, HANDLER, clock=0, weight=2)
    for number in range(8):
        begin = 2000 + 250 * number
        cpu_step(story, begin * 1000, 20, MAIN, *([CALLBACK, HANDLER] if computing else []), apart=9900, lasts=250_000)
        turns += [begin] if computing else []
    for sample in story.tables["cpu_samples"]:
        sample["weight"] = 2
    story.tables["loop_turns"] = [{"thread": 1, "due": 1, "begin_ns": begin * MS, "end_ns": (begin + TURN) * MS} for begin in turns]
    story.tables["thread_ends"] = [{"thread": 1, "end_ns": 4000 * MS, "cpu_ns": 0}]
    return story


@pytest.mark.parametrize(
    ("computing", "whole_run", "share"), [(True, False, 0.8), (True, True, 0.65), (False, False, 0), (False, True, 0.25)]
)
def test_it_speaks_of_the_scope(tmp_path: Path, computing: bool, whole_run: bool, share: float) -> None:
    listed = list(busy_loops(analysis_of(in_steps(computing=computing).profile(tmp_path), whole_run=whole_run)))
    assert [finding.share for finding in listed] == ([pytest.approx(share, abs=0.01)] if share else [])
