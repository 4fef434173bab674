"""Facts of ranks: small, the same wherever they are made, and put together in any order."""

from __future__ import annotations

import shutil
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_ranks import LAYERS, MS, Made, job, tables_of, write
from profiles import Row, sealed

from aiflame.analyze.ranks.facts import Partial, RankFacts
from aiflame.analyze.ranks.fan_out import here, room
from aiflame.analyze.ranks.sources import AT_LEAST, Source, facts_of, sources
from aiflame.errors import AiflameError

MADE = Made(ranks=5, steps=3, sleeps={(2, 2): 20})


def plain(partial: Partial) -> tuple[Any, ...]:
    """All that is in it, to be compared."""

    def of(one: RankFacts) -> dict[str, Any]:
        values = {name: getattr(one, name) for name in RankFacts.__slots__}
        return {name: value.rows() if isinstance(value, pl.DataFrame) else value for name, value in values.items()}

    return [of(one) for one in partial.facts], partial.notes  # type: ignore[return-value]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Partial]:
    """Facts of five ranks; one that cannot be read; a second profile that claims to be rank 1; and nothing."""
    folder = tmp_path_factory.mktemp("ranks")
    profiles, _ = sources([job(folder / "job.aiflame", MADE)])
    write(folder / "other.aiflame", MADE, 1)
    more = [Source(str(folder / "gone.aiflame"), 9), Source(str(folder / "other.aiflame"), 1)]
    return [*map(facts_of, [*profiles, *more]), Partial()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job's, which no test changes."""
    return job(tmp_path_factory.mktemp("job") / "job.aiflame", MADE)


@pytest.fixture(scope="module")
def whole(folder: Path) -> Partial:
    """The job's facts, made in one process."""
    return here(sources([folder])[0], 4 << 30, processes=1)


@given(data=st.data())
def test_partial_results_are_merged_in_any_order_and_by_any_tree(parts: list[Partial], data: st.DataObject) -> None:
    waiting = data.draw(st.permutations(parts))
    while len(waiting) > 1:
        at = data.draw(st.integers(0, len(waiting) - 2))
        waiting[at : at + 2] = [waiting[at].merged(waiting[at + 1])]
    assert plain(waiting[0]) == plain(reduce(Partial.merged, parts))


def test_merging_the_same_twice_changes_nothing(parts: list[Partial]) -> None:
    whole = reduce(Partial.merged, parts)
    assert plain(whole.merged(parts[0])) == plain(whole)


def test_of_two_profiles_that_are_one_rank_one_counts_and_a_note_says_so(parts: list[Partial]) -> None:
    whole = reduce(Partial.merged, parts)
    assert [one.rank for one in whole.facts] == [0, 1, 2, 3, 4]
    assert any("other.aiflame left out: another profile is rank 1, too" in note for note in whole.notes)
    assert any("gone.aiflame does not exist" in note for note in whole.notes)


def test_several_processes_give_the_same_as_one(folder: Path, whole: Partial) -> None:
    profiles, _ = sources([folder])
    partial: list[float] = []
    apart = here(profiles, 4 << 30, partial.append, processes=2)
    assert plain(apart) == plain(whole)
    assert partial[-1] == 1.0


def test_as_many_ranks_are_read_at_once_as_there_is_memory_for(folder: Path) -> None:
    profiles, _ = sources([folder])
    assert room(profiles, memory=10 * AT_LEAST, most=4) == 4
    assert room(profiles, memory=7 * AT_LEAST // 2, most=4) == 2
    assert room(profiles, memory=1, most=4) == 1


def test_a_rank_that_is_damaged_does_not_end_the_others(tmp_path: Path) -> None:
    path = job(tmp_path / "job.aiflame", MADE)
    calls = next((path / "ranks" / "00003" / "tables" / "calls").iterdir())
    calls.write_bytes(b"damaged")
    shutil.rmtree(path / "ranks" / "00001" / "tables")
    profiles = here(sources([path])[0], 1 << 30, processes=1)
    assert [one.rank for one in profiles.facts] == [0, 2, 4]
    assert len(profiles.notes) == 2


def test_ranks_that_left_no_recording_are_noted(tmp_path: Path) -> None:
    path = job(tmp_path / "job.aiflame", MADE)
    (path / "ranks" / "job").write_text('{"name": "1", "launcher": "openmpi", "size": 7, "ranks": ""}\n')
    assert sources([path])[1] == [f"{path}: 2 of 7 ranks left no recording"]


def test_a_profile_of_each_rank_is_the_same_as_a_folder_of_them(folder: Path, whole: Partial) -> None:
    each, _ = sources(sorted((folder / "ranks").iterdir()))
    assert plain(here(each, 1 << 30, processes=1)) == plain(whole)


def test_ranks_that_are_processes_of_one_profile_have_the_facts_of_ranks_with_profiles_of_their_own(tmp_path: Path, whole: Partial) -> None:
    tables: dict[str, list[Row]] = {}
    for rank in range(MADE.ranks):
        for name, rows in tables_of(MADE, rank).items():
            tables.setdefault(name, []).extend({**row, "process": rank} for row in rows)
    sealed(tmp_path / "all.aiflame", **tables)
    together = here(sources([tmp_path / "all.aiflame"])[0], 1 << 30, processes=1)
    for one, other in zip(together.facts, whole.facts, strict=True):
        for name in ("rank", "rule", "times", "steps", "layers", "slots", "collectives", "doing"):
            mine, its = getattr(one, name), getattr(other, name)
            assert (mine.rows() == its.rows()) if isinstance(mine, pl.DataFrame) else (mine == its), name


def test_profiles_that_know_no_rank_are_numbered_as_they_are_named(tmp_path: Path) -> None:
    for name in ("b", "a"):
        sealed(tmp_path / f"{name}.aiflame")
    profiles, notes = sources([tmp_path / "b.aiflame", tmp_path / "a.aiflame", tmp_path / "none.aiflame"])
    assert [(Path(source.path).name, source.rank) for source in profiles] == [("b.aiflame", 0), ("a.aiflame", 1)]
    assert len(notes) == 1
    with pytest.raises(AiflameError, match="does not exist"):
        sources([tmp_path / "none.aiflame"])


def test_a_ranks_computing_is_named_by_layer(folder: Path) -> None:
    facts = facts_of(Source(str(folder / "ranks" / "00000"), 0)).facts[0]
    took = {(phase, layer): took for phase, layer, took, _ in facts.layers.rows()}
    for layer in LAYERS:
        assert took[2, f"layers.{layer}"] == took[3, f"layers.{layer}"] == MADE.steps * 10 * MS


def test_only_the_facts_about_steps_grow_with_steps(tmp_path: Path) -> None:
    few, many = (
        facts_of(Source(str(job(tmp_path / f"{steps}.aiflame", Made(steps=steps)) / "ranks" / "00000"), 0)).facts[0] for steps in (3, 30)
    )
    assert len(many.slots) == len(few.slots) == len(LAYERS)
    assert len(many.layers) == len(few.layers)
    assert len(many.doing) == len(few.doing)
    assert len(many.collectives) == 10 * len(few.collectives)
