"""Functions that Dynamo compiles again and again, and the arguments that change."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import MAIN, Story, cpu_step
from story_findings import found

from aiflame.render.terminal.findings_list import look

S = 1_000_000_000
SIZE = "0/{0}: tensor 'x' size mismatch at index 1. expected {1}, actual {2}"
STACK = '\nUser stack trace:\n  File "/app/train.py", line 31, in step\n    return x * n'

VALUE = "0/{0}: n == {0}    # return x * n  # app/train.py:31 in step" + STACK


COMPILE = ("_compile", "/site-packages/torch/_dynamo/convert_frame.py", 900)


def compiled(*reasons: str, seconds: float = 0.5, lasts: float = 20) -> Story:
    story = Story()
    for moment in range(200):
        frames = (MAIN, COMPILE) if moment < 20 else (MAIN,)
        story.met(moment * lasts * 5000, *frames, clock=0)
    of = {"function": "step", "file": "/app/train.py", "line": 30}
    story.tables["recompilations"] = [
        {**of, "reason": reason, "begin_ns": number * S, "end_ns": int((number + seconds) * S)} for number, reason in enumerate(reasons)
    ]
    story.tables["process_ends"] = [{"end_ns": int(lasts * S), "cpu_ns": 0}]
    return story


@pytest.mark.parametrize(
    ("reasons", "kind", "because", "line"),
    [
        ([SIZE.format(n, 4 + n, 5 + n) for n in range(5)], "size", "dimension 1 of x changes (4, 5, 6, 7 …)", 30),
        (
            [f"0/{n}: n == {n}    # return x * n  # app/train.py:31 in step{STACK}" for n in range(4)],
            "value",
            "n changes (0, 1, 2, 3 …)",
            31,
        ),
        ([f"0/{n}: L['x'].shape[0] == {n}" for n in (3, 4, 5)], "value", "x.shape[0] changes (3, 4, 5 …)", 30),
        (["0/0: tensor 'x' dtype mismatch. expected Float, actual Double"] * 4, "type", "the dtype of x changes", 30),
        (["0/0: GLOBAL_STATE changed: grad_mode"] * 3, "other", "this no longer holds: GLOBAL_STATE changed: grad_mode", 30),
    ],
)
def test_the_reason_of_compiling_again_is_named(tmp_path: Path, reasons: list[str], kind: str, because: str, line: int) -> None:
    finding = found(compiled(*reasons), tmp_path)[f"recompiling-{kind}"]
    assert finding.sentence.startswith(f"step() (train.py:{line}) is compiled again {len(reasons)} times, because {because}: ")
    assert finding.view.place == f"/app/train.py:{line}"


@pytest.mark.parametrize(
    "story",
    [
        compiled(*(SIZE.format(n, n, n + 1) for n in range(2))),
        compiled(*(SIZE.format(n, n, n + 1) for n in range(6)), seconds=0.1),
        compiled(*(SIZE.format(n, n, n + 1) for n in range(6)), lasts=200),
    ],
    ids=["twice", "quickly", "little"],
)
def test_near_misses(tmp_path: Path, story: Story) -> None:
    assert not [kind for kind in found(story, tmp_path) if kind.startswith("recompiling")]


def test_in_a_program_with_steps_it_is_a_share_of_the_whole_run(tmp_path: Path) -> None:
    """Its steady steps compile nothing; the evidence is outside of them."""
    story = compiled(*(SIZE.format(n, 4 + n, 5 + n) for n in range(5)))
    for number in range(8):
        cpu_step(story, (21 + number) * 1_000_000, 20, MAIN, apart=40_000, lasts=1_000_000)
    story.tables["process_ends"] = [{"end_ns": 29 * S, "cpu_ns": 0}]
    finding = found(story, tmp_path)["recompiling-size"]
    assert finding.sentence.endswith(f": {2.5 / 29:.0%} of the whole run goes into that")
    assert look(finding, "p.aiflame").endswith("--focus '^_compile$' --whole-run")
