"""Lines with their callees: each caller's line stands below its function, and its callees below the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from called_lines import CODES, F_9, IMPORTS, MAIN_5, MS, SYMBOLS, profile
from profiles import sealed

from aiflame.analyze.top import top
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.store import Profile


@pytest.fixture
def recorded(tmp_path: Path) -> Profile:
    return profile(tmp_path)


def test_a_line_has_the_time_of_the_functions_that_it_calls(recorded: Profile) -> None:
    shown = hide_interpreter_noise(tree(recorded, detail="call-line"))
    rows = {name: (own // MS, total // MS) for name, own, total in top(shown, "line").select("name", "self", "total").rows()}
    assert rows == {"work.c:30": (40, 40), "prog.py:9": (30, 30), "prog.py:3": (20, 20), "prog.py:10": (10, 50), "prog.py:5": (0, 80)}


def test_functions_and_their_time_are_those_of_the_tree_without_lines(recorded: Profile) -> None:
    plain, with_lines = (top(hide_interpreter_noise(tree(recorded, detail=detail))) for detail in ("function", "call-line"))
    assert with_lines.equals(plain)


def test_a_hidden_function_takes_its_line_with_it(tmp_path: Path) -> None:
    stacks = [{"parent": 0, "frame": MAIN_5}, {"parent": 1, "frame": IMPORTS}, {"parent": 2, "frame": F_9}]
    samples = [{"thread": 1, "stack": id, "weight": 1, "period_ns": MS} for id in (2, 3)]
    recorded = sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, codes=CODES, stacks=stacks, cpu_samples=samples)
    shown = hide_interpreter_noise(tree(recorded, detail="call-line"))
    assert dict(top(shown, "line").select("name", "self").rows()) == {"prog.py:5": MS, "prog.py:9": MS}


def test_a_waiting_thread_waits_at_its_line(tmp_path: Path) -> None:
    stacks = [{"parent": 0, "frame": MAIN_5}, {"parent": 1, "frame": F_9}]
    samples = [{"thread": 1, "stack": 2, "weight": 4, "period_ns": MS, "clock": 1, "state": 1}]
    recorded = sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, codes=CODES, stacks=stacks, cpu_samples=samples)
    shown = hide_interpreter_noise(tree(recorded, "wall-time", detail="call-line"))
    rows = {name: (own // MS, total // MS) for name, own, total in top(shown, "line").select("name", "self", "total").rows()}
    assert rows == {"[waiting]": (4, 4), "prog.py:5": (0, 4), "prog.py:9": (0, 4)}
