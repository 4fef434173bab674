"""Steps of programs with JAX: one for each turn of the loop, as long as by its own clock; and nothing that a program can see changes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from guest_python import python_with
from recording import recorder

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.overview.scope_line import scope_line
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.context import profile_steps

PROGRAM = Path(__file__).parent / "programs" / "jax_steps.py"
CLOSE = 0.15
"""Of the time by the program's own clock. Both read the same stretches, on a busy machine too."""


Recorded = Callable[[str], tuple[Any, Profile]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The answer and the profile of a program, which runs once."""

    @cache
    def record(name: str) -> tuple[Any, Profile]:
        run = recorder(tmp_path_factory.mktemp(name))(python_with("jax"), PROGRAM, name, env={"JAX_PLATFORMS": "cpu"})
        assert run.status == 0, run.stderr
        return json.loads(run.stdout), run.profile()

    return record


def steps(profile: Profile) -> pl.DataFrame:
    return profile_steps(Analysis.of(profile.store)).rows.sort("step").with_columns(took=pl.col("end_ns") - pl.col("begin_ns"))


@pytest.mark.parametrize(("name", "more"), [("train", 0), ("decode", 1)])
def test_each_turn_of_a_loop_is_a_step(recorded: Recorded, name: str, more: int) -> None:
    """`more`: the prompt, which the same functions read. The first turns compile, and a step may begin in the middle of a turn."""
    own, profile = recorded(name)
    rows = steps(profile)
    assert len(rows) == len(own) + more
    assert rows["took"][3 + more : -1].sum() == pytest.approx(sum(own[3:-1]), rel=CLOSE)


def test_evaluation_between_epochs_is_in_no_step(recorded: Recorded) -> None:
    _, profile = recorded("train")
    rows = steps(profile)
    gaps = (rows["begin_ns"].shift(-1) - rows["end_ns"]).to_list()[:-1]
    assert [at for at, gap in enumerate(gaps) if gap > 0] == [39]
    assert scope_line(profile_analysis(Analysis.of(profile.store)), profile.store.meta).inference is None


@pytest.mark.parametrize("name", ["apart", "eager"])
def test_no_step_where_nothing_repeats(recorded: Recorded, name: str) -> None:
    _, profile = recorded(name)
    assert steps(profile).is_empty()


def test_jitted_functions_stay_as_they_are(recorded: Recorded) -> None:
    recorded_answers, _ = recorded("unchanged")
    alone = subprocess.run([python_with("jax"), PROGRAM, "unchanged"], capture_output=True, text=True, check=True)
    assert recorded_answers == json.loads(alone.stdout)
