"""The data of the report's page of ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import rank_folders
from made_ranks import MS, Made, job
from rank_folders import a_rank, working

import aiflame
from aiflame.analyze.ranks import page as pages
from aiflame.analyze.ranks.comparison import ranks
from aiflame.analyze.ranks.facts import STEPS, Partial, of_rank
from aiflame.analyze.ranks.fan_out import here
from aiflame.analyze.ranks.one_profile import answer, facts_of_ranks, rank_numbers
from aiflame.analyze.ranks.page import RankPage, rank_page
from aiflame.analyze.ranks.sources import sources
from aiflame.analyze.ranks.steps import MOST_COLUMNS, step_map
from aiflame.analyze.tables.table import TableOf
from aiflame.profile.tables.interface import OpenedProfile

SLEEPS = Made(sleeps={(2, 1): 20})


def opened(path: Path, program: Made = SLEEPS) -> OpenedProfile:
    return aiflame.open(job(path / "job.aiflame", program)).store


def page(profile: OpenedProfile) -> RankPage:
    partial = facts_of_ranks(profile)
    return rank_page(partial, answer(partial))


def table(shown: RankPage, name: str) -> TableOf:
    return next(one for one in shown.tables if one.name == name)


@pytest.fixture(scope="module")
def sleeping(tmp_path_factory: pytest.TempPathFactory) -> OpenedProfile:
    return opened(tmp_path_factory.mktemp("sleeping"))


@pytest.fixture(scope="module")
def facts(sleeping: OpenedProfile) -> Partial:
    return facts_of_ranks(sleeping)


@pytest.fixture(scope="module")
def asleep(facts: Partial) -> RankPage:
    return rank_page(facts, answer(facts))


def test_ranks_of_an_opened_profile_have_the_facts_that_each_has_alone(sleeping: OpenedProfile, facts: Partial) -> None:
    alone = ranks(here(sources([sleeping.path])[0], 1 << 30, processes=1))
    together = answer(facts)
    assert rank_numbers(sleeping) == [0, 1, 2, 3]
    assert [replace(row, host="") for row in together.rows] == [replace(row, host="") for row in alone.rows]
    assert together.stragglers == alone.stragglers
    assert [one.sentence for one in together.findings] == [one.sentence for one in alone.findings]


def test_some_ranks_of_a_profile_are_its_page(sleeping: OpenedProfile) -> None:
    profile = aiflame.open(sleeping.path, ranks={1, 2}).store
    assert table(page(profile), "ranks").rows["rank"].to_list() == ["rank 1", "rank 2"]


def test_a_group_of_the_shown_ranks_is_not_all_of_the_job(tmp_path: Path) -> None:
    """Four ranks reduce in pairs; the first pair is opened."""
    job_of_pairs = opened(tmp_path, Made(sleeps={(1, 2): 20}, together=2))
    lates = table(page(aiflame.open(job_of_pairs.path, ranks={0, 1}).store), "lates")
    assert set(lates.rows["group"].to_list()) == {"torch 0-1"}


def test_a_rank_that_cannot_be_analysed_is_a_note(sleeping: OpenedProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(profile: object, meta: object, rank: int, size: int) -> object:
        if rank == 1:
            raise ValueError("damaged")
        return of_rank(profile, meta, rank, size)  # type: ignore[arg-type]

    monkeypatch.setattr("aiflame.analyze.ranks.one_profile.of_rank", fails)
    partial = facts_of_ranks(sleeping)
    assert [one.rank for one in partial.facts] == [0, 2, 3]
    assert partial.notes == ("rank 1 cannot be analysed: ValueError: damaged",)
    assert len(rank_page(partial, answer(partial)).comparison.rows) == 3


def test_the_uncertainty_of_hosts_clocks_is_reported(tmp_path: Path) -> None:
    """Each rank is on a host of its own, whose clock is 50 ms ahead, or behind."""
    profile = opened(tmp_path, Made(ranks=3, sleeps={(2, 1): 20}, skew={0: 0, 1: 50, 2: -50}))
    shown = page(profile)
    clocks = table(shown, "clocks").rows
    assert clocks["host"].to_list() == ["node1", "node2"]
    assert (clocks["residual"] <= 3 * MS).all()  # an all-reduce of 2 ms, and nothing else to go by
    assert [row.last for row in shown.comparison.rows] == [0, 0, 6]
    assert "clock" in [column.name for column in table(shown, "ranks").columns]


def test_on_one_host_no_clock_is_mentioned(asleep: RankPage) -> None:
    assert "clocks" not in [one.name for one in asleep.tables]
    assert not {"host", "clock"} & {column.name for column in table(asleep, "ranks").columns}


def test_the_map_says_where_a_rank_was_late_and_where_it_computed_more(asleep: RankPage) -> None:
    """Rank 2 sleeps in each of six steps. The first all-reduce of all is nobody's fault: nothing is known before it."""
    steps = asleep.steps
    assert steps is not None
    assert steps.first.tolist() == [0, 1, 2, 3, 4, 5]
    late = next(one for one in steps.quantities if one.name == "late").values
    assert (late[2] > 15 * MS).sum() >= 5
    assert late[[0, 1, 3]].sum() == 0
    assert "more" not in [one.name for one in steps.quantities]  # all compute alike


def test_of_very_many_steps_neighbours_are_one_column(tmp_path: Path) -> None:
    """Step n takes rank 0 n µs of compute; rank 1 has the even ones alone."""
    (fact, *_) = facts_of_ranks(opened(tmp_path, Made(ranks=2))).facts
    many = 2 * MOST_COLUMNS

    def spent(numbers: list[int]) -> pl.DataFrame:
        zero = dict.fromkeys(STEPS, 0)
        rows = [{**zero, "step": number, "compute": number * 1000} for number in numbers]
        return pl.DataFrame(rows, schema=STEPS)

    facts = (replace(fact, rank=0, steps=spent(list(range(many)))), replace(fact, rank=1, steps=spent(list(range(0, many // 2, 2)))))
    columns = step_map(facts, [])
    assert columns is not None
    assert (len(columns.first), columns.first[1], columns.last) == (MOST_COLUMNS, 2, many - 1)
    compute = next(one for one in columns.quantities if one.name == "compute").values
    assert compute[0, :3].tolist() == [500, 2500, 4500]
    assert compute[1, :3].tolist() == [0, 2000, 4000]
    assert np.isnan(compute[1, -1])


def test_of_very_many_paths_the_most_informative_are_shown(facts: Partial, monkeypatch: pytest.MonkeyPatch) -> None:
    job_answer = answer(facts)
    monkeypatch.setattr(pages, "MOST_STRETCHES", 1)
    few = rank_page(facts, job_answer)
    kept = {one.path.step for one in few.paths}
    assert few.left_out == len(job_answer.paths) - len(kept) > 0
    assert {step for _, step in few.telling} <= kept


def test_a_path_names_each_rank_on_it_with_its_time(facts: Partial, asleep: RankPage) -> None:
    shown = next(one for one in asleep.paths if one.path.step == 3)
    assert shown.begin_ns == pl.concat([one.steps for one in facts.facts]).filter(step=3)["begin_ns"].min()
    assert shown.work[0][0] == 2
    assert sum(took for _, took in shown.work) + shown.path.communication_ns == shown.path.took_ns


def test_a_program_without_steps_has_no_map_and_no_paths(tmp_path: Path) -> None:
    profile = aiflame.open(_plain(tmp_path / "p.aiflame")).store
    shown = page(profile)
    assert (shown.steps, shown.paths) == (None, [])
    assert [one.name for one in shown.tables] == ["ranks"]


def test_nothing_at_all_is_a_page_too() -> None:
    assert rank_page(Partial(), ranks(Partial())).tables == []


def _plain(path: Path) -> Path:
    return rank_folders.job(path, a_rank(0, size=2), a_rank(1, size=2), size=2, tables=lambda rank: working(ticks=3))
