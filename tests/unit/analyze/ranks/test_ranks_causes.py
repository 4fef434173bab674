"""For which rank the others of a made-up training wait, where, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_ranks import LAYERS, MS, OPTIMIZER, REDUCE, WORK, Made, job, tables_of, write
from profiles import Row, sealed

from aiflame.analyze.findings.ranks import rank_findings
from aiflame.analyze.ranks.activity import Cause
from aiflame.analyze.ranks.clocks import Clocks
from aiflame.analyze.ranks.comparison import Ranks, median_and_longest, ranks, to_json
from aiflame.analyze.ranks.facts import Partial
from aiflame.analyze.ranks.fan_out import here
from aiflame.analyze.ranks.losses import slow
from aiflame.analyze.ranks.one_profile import answer as answer_of
from aiflame.analyze.ranks.one_profile import facts_of_ranks
from aiflame.analyze.ranks.sources import sources
from aiflame.profile.ranks.shifts import Shift

SLEEPS = Made(sleeps={(2, 2): 20})
"""Rank 2 sleeps 20 ms in the backward of layer 2."""


def facts(path: Path) -> Partial:
    return here(sources([path])[0], 1 << 30, processes=1)


def answer(tmp_path: Path, program: Made) -> Ranks:
    return ranks(facts(job(tmp_path / "job.aiflame", program)))


@pytest.fixture(scope="module")
def slept(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """The answer for SLEEPS."""
    return answer(tmp_path_factory.mktemp("sleeps"), SLEEPS)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return answer(tmp_path_factory.mktemp("alike"), Made())


def test_a_rank_that_sleeps_in_a_layers_backward_is_named_with_rank_phase_layer_and_cause(slept: Ranks) -> None:
    (one,) = slept.stragglers
    assert (one.rank, one.why.phase, one.why.layer, one.why.cause) == (2, "Backward", "layers.2", Cause.WAIT)
    assert one.name == "all-reduce"
    # The first collective of all is left out: no common moment before it shows when ranks began their work.
    assert (one.times, one.of) == (SLEEPS.steps - 1, SLEEPS.steps)
    assert one.lost_ns == 20 * MS * (SLEEPS.steps - 1)
    assert one.waited_ns == 3 * one.lost_ns


def test_the_straggler_is_the_first_finding(slept: Ranks) -> None:
    first = slept.findings[0]
    assert first.kind == "straggler"
    for part in ("Rank 2", "5 of 6 all-reduces", "20 ms", "Backward of layers.2", "slept"):
        assert part in first.sentence


def test_only_the_ranks_of_a_group_wait_for_its_straggler(tmp_path: Path, slept: Ranks) -> None:
    """Ranks 0 and 1 reduce without ranks 2 and 3, so only rank 3 waits for rank 2."""
    (one,) = answer(tmp_path, replace(SLEEPS, together=2)).stragglers
    (whole,) = slept.stragglers
    assert (one.rank, one.ranks, whole.ranks) == (2, 2, 4)
    (of_group,), (of_all,) = slow([one], 4), slow([whole], 4)
    assert of_group.sentence.endswith("of the time of the 2 ranks that meet there")
    assert of_all.sentence.endswith("of the time of all 4 ranks")


def test_a_cause_is_known_of_late_ranks_whose_work_was_not_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many slots only the costliest are examined: the others were late by their own work all the same."""
    monkeypatch.setattr("aiflame.analyze.ranks.stragglers.ASKED", 1)
    compared = answer(tmp_path, Made(sleeps={(2, 2): 20, (1, 0): 50}))
    assert {(one.rank, one.why.cause, one.why.layer) for one in compared.stragglers} == {
        (2, Cause.WAIT, "layers.2"),
        (1, Cause.WAIT, "layers.0"),
    }
    assert all(late.why is not None for late in compared.lates if late.own_ns > 0)
    assert [row.lost_ns for row in compared.rows] == [
        sum(one.lost_ns for one in compared.stragglers if one.rank == rank) for rank in range(4)
    ]


def test_ranks_that_are_alike_have_no_straggler_and_nothing_is_found(alike: Ranks) -> None:
    assert alike.collectives == Made().steps * len(LAYERS)
    assert (alike.stragglers, alike.lates, alike.findings) == ([], [], [])


@pytest.mark.parametrize(
    ("program", "rank", "where", "cause"),
    [
        (Made(longer={(1, 1): 20}), 1, ("Backward", "layers.1"), Cause.COMPUTE),
        (Made(loads={3: 30}), 3, ("Data loading", ""), Cause.DATA),
        (Made(sleeps={(0, 0): 20}, ranks=2), 0, ("Backward", "layers.0"), Cause.WAIT),
    ],
    ids=["computes longer", "waits for data", "the first of two"],
)
def test_a_cause_is_the_last_ranks_work_beyond_the_median_ranks(
    tmp_path: Path, program: Made, rank: int, where: tuple[str, str], cause: Cause
) -> None:
    job_answer = answer(tmp_path, program)
    assert [(one.rank, (one.why.phase, one.why.layer), one.why.cause) for one in job_answer.stragglers] == [(rank, where, cause)]


def test_two_that_are_slow_in_different_places_are_both_named(tmp_path: Path) -> None:
    job_answer = answer(tmp_path, Made(sleeps={(2, 2): 20}, longer={(1, 0): 30}))
    named = {(one.rank, one.why.layer, one.why.cause) for one in job_answer.stragglers}
    assert named == {(2, "layers.2", Cause.WAIT), (1, "layers.0", Cause.COMPUTE)}


def test_a_late_rank_is_not_blamed_again_at_later_collectives(slept: Ranks) -> None:
    by_layer = {layer: [late for late in slept.lates if late.layer == f"layers.{layer}"] for layer in LAYERS}
    assert {late.rank for late in slept.lates} == {2}
    assert all(late.late_ns == 20 * MS for late in slept.lates)
    assert [late.own_ns for late in by_layer[1] + by_layer[0]] == [0] * 2 * SLEEPS.steps
    assert {late.why for late in by_layer[1] + by_layer[0]} == {None}


def test_times_of_a_rank_add_up_and_are_those_that_were_made(alike: Ranks) -> None:
    program = Made()
    for row in alike.rows:
        assert row.compute_ns == program.steps * (2 * WORK * len(LAYERS) + OPTIMIZER) * MS
        assert row.communication_ns == program.steps * len(LAYERS) * REDUCE * MS
        # The work of the next layer hides all but the last all-reduce of a step.
        assert row.exposed_ns == program.steps * REDUCE * MS
        assert row.overlap == pytest.approx(1 - 1 / len(LAYERS))
        assert row.compute_ns + row.exposed_ns + row.copies_ns + row.idle_ns == row.whole_ns == program.steps * program.step * MS


def test_sleep_is_idle_time_of_the_sleeping_rank_and_exposed_time_of_the_others(slept: Ranks) -> None:
    rows = slept.rows
    assert [row.idle_ns for row in rows] == [0, 0, SLEEPS.steps * 20 * MS, 0]
    assert [row.exposed_ns for row in rows] == [SLEEPS.steps * (20 * (row.rank != 2) + REDUCE) * MS for row in rows]
    assert [row.waited_ns > 0 for row in rows] == [True, True, False, True]


def test_phases_are_those_of_steps(tmp_path: Path) -> None:
    phases = {one.phase: one for one in answer(tmp_path, Made(loads={3: 30})).phases}
    assert phases["Forward"].whole_ns == phases["Forward"].compute_ns == WORK * len(LAYERS) * MS
    assert phases["Optimizer"].compute_ns == OPTIMIZER * MS
    assert (phases["Data loading"].slowest, phases["Data loading"].slowest_ns) == (3, 30 * MS)


def test_the_critical_path_goes_through_the_rank_that_the_others_wait_for(slept: Ranks) -> None:
    assert len(slept.paths) == SLEEPS.steps
    for path in slept.paths[1:]:
        assert sum(one.took_ns for one in path.stretches) == path.took_ns == SLEEPS.step * MS
        assert path.decided_by().keys() == {2}
        assert path.communication_ns == REDUCE * MS


def test_the_paths_of_the_median_and_the_longest_step_are_shown(slept: Ranks) -> None:
    assert {path.step for path in median_and_longest(slept.paths)} <= set(range(1, SLEEPS.steps))
    assert median_and_longest([]) == []


def test_clocks_that_are_50_ms_apart_change_only_the_uncertainty(tmp_path: Path, slept: Ranks) -> None:
    one, two = slept, answer(tmp_path, Made(sleeps={(2, 2): 20}, skew={0: 0, 1: 50, 2: -50, 3: 20}))
    assert one.residual_ns == {}
    assert two.residual_ns.keys() == {1, 2, 3}
    assert [(late.rank, late.step, late.layer, late.own_ns) for late in two.lates] == [
        (late.rank, late.step, late.layer, late.own_ns) for late in one.lates
    ]
    assert [abs(late.late_ns - 20 * MS) < MS // 20 for late in two.lates] == [True] * len(two.lates)


def test_clocks_may_be_given(tmp_path: Path) -> None:
    """All said to be 5 ms behind but rank 1: it is the last then, but has done nothing for it."""
    partial = facts(job(tmp_path / "job.aiflame", Made()))
    job_answer = ranks(partial, Clocks({1: Shift(5 * MS)}))
    assert {(late.rank, late.late_ns, late.own_ns) for late in job_answer.lates} == {(1, 5 * MS, 0)}
    assert job_answer.stragglers == []


def test_a_rank_alone_has_its_times(tmp_path: Path) -> None:
    write(tmp_path / "alone.aiflame", Made(ranks=1), 0)
    job_answer = ranks(facts(tmp_path / "alone.aiflame"))
    assert (job_answer.collectives, job_answer.stragglers, job_answer.rows[0].steps) == (0, [], Made().steps)


def test_a_rank_without_collectives_is_noted(tmp_path: Path) -> None:
    job(tmp_path / "job.aiflame", Made(ranks=2))
    silent = {name: rows for name, rows in tables_of(Made(ranks=2), 1).items() if name not in ("calls", "ranks")}
    sealed(tmp_path / "job.aiflame" / "ranks" / "00002", **silent)
    job_answer = ranks(facts(tmp_path / "job.aiflame"))
    assert [row.rank for row in job_answer.rows] == [0, 1, 2]
    assert any("no collectives were recorded in rank 2" in note for note in job_answer.notes)


def test_nothing_at_all_has_no_rows() -> None:
    job_answer = ranks(Partial())
    assert (job_answer.rows, job_answer.paths, job_answer.findings, job_answer.notes) == ([], [], [], [])


def test_json_has_reasons_in_words(slept: Ranks) -> None:
    document = to_json(slept, rows=2)
    assert len(document["lates"]) == 2
    assert document["lates"][0]["why"]["cause"] == "wait"
    assert document["stragglers"][0]["reason"].startswith("it slept")
    assert [row["rank"] for row in document["rows"]] == [0, 1, 2, 3]


def test_ranks_in_one_profile_are_among_its_findings(tmp_path: Path) -> None:
    tables: dict[str, list[Row]] = {}
    for rank in range(SLEEPS.ranks):
        for name, rows in tables_of(SLEEPS, rank).items():
            tables.setdefault(name, []).extend({**row, "process": rank} for row in rows)
    profile = sealed(tmp_path / "all.aiflame", **tables)
    assert "Rank 2 comes last to 5 of 6 all-reduces" in next(rank_findings(profile, lambda: answer_of(facts_of_ranks(profile)))).sentence
    assert list(rank_findings(sealed(tmp_path / "none.aiflame"), lambda: answer_of(Partial()))) == []


def test_a_rank_may_have_any_number_of_32_bits(tmp_path: Path) -> None:
    """Damaged, that is."""
    rows: list[Row] = [{"process": process, "rank": rank, "size": 2} for process, rank in enumerate((4, (1 << 31) + 1))]
    damaged = sealed(tmp_path / "p.aiflame", processes=[{"pid": 1}, {"process": 1, "pid": 2}], ranks=rows)
    assert list(rank_findings(damaged, lambda: answer_of(facts_of_ranks(damaged)))) == []
