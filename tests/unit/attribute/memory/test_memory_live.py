"""Bytes that are live at a moment: reckoned a second time by walking through all moments, one after the other."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from profiles import Row, sealed

from aiflame.analyze.memory.at_moment import at_moment
from aiflame.attribute.memory.metrics import OF_MEMORY, memory_metrics
from aiflame.attribute.memory.moments import Moment, stretch
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.profile.schema.enums import AllocationKind, GpuApi
from aiflame.profile.tables.store import Profile

START = 1_000_000_000
SECOND = 1_000_000_000
STACKS: list[Row] = [{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": F_9}]


def block(begin: float, end: float, size: int, **columns: object) -> Row:
    """Its life in seconds from the start; 0: older than the recording, or never freed."""
    moments = {"begin_ns": START + round(begin * SECOND) if begin else 0, "end_ns": START + round(end * SECOND) if end else 0}
    return {"memory": "host", "bytes": size, **moments, **columns}


def made(path: Path, *blocks: Row, **tables: list[Row]) -> Profile:
    return sealed(path / "p.aiflame", symbols=SYMBOLS, processes=[{"pid": 7, "start_ns": START}], memory_blocks=[*blocks], **tables)


def total(profile: Profile, metric: str) -> int:
    return tree(profile, metric).total(metric)


def test_each_moment_has_the_blocks_that_live_then(tmp_path: Path) -> None:
    profile = made(tmp_path, block(0, 0, 1), block(1, 3, 10), block(2, 4, 100), block(5, 0, 20))
    at = {when: total(profile, f"host-bytes@{when}") for when in ("0s", "1s", "1.5s", "2s", "3s", "4s", "5s", "end", "2.5..9s", "3.5..9s")}
    assert at == {
        "0s": 1, "1s": 11, "1.5s": 11, "2s": 111, "3s": 101, "4s": 1, "5s": 21, "end": 21, "2.5..9s": 111, "3.5..9s": 101,
    }  # fmt: skip
    assert total(profile, "host-bytes") == 111
    assert total(profile, "host-allocated") == 130, "older blocks were not allocated in the recording"
    assert total(profile, "allocations") == 3
    assert metrics(profile) == ["host-bytes", "host-allocated", "allocations"]


def test_a_block_that_takes_anothers_place_at_once_does_not_add_to_it(tmp_path: Path) -> None:
    assert total(made(tmp_path, block(1, 2, 100), block(2, 3, 100)), "host-bytes") == 100


def test_each_process_and_each_memory_has_its_own_peak(tmp_path: Path) -> None:
    blocks = [
        block(1, 2, 5, memory="GPU 0"),
        block(3, 4, 7, memory="GPU 1"),
        block(3, 4, 11, memory="GPU 0", process=1),
        block(6, 7, 1000, memory="host"),
    ]
    two = [{"pid": 7, "start_ns": START}, {"pid": 8, "start_ns": START, "process": 1}]
    profile = sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, processes=two, memory_blocks=blocks)
    assert total(profile, "gpu-bytes") == 23
    assert total(profile, "gpu-bytes@3s") == 18
    assert total(profile, "host-bytes") == 1000


@pytest.mark.parametrize("seed", range(4))
def test_the_peak_is_that_of_a_walk_through_all_moments(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rows = []
    for _ in range(200):
        begin = chance.randrange(0, 50)
        rows.append(block(begin, chance.choice([0, begin + chance.randrange(1, 30)]), chance.randrange(1, 999), stack=chance.randrange(3)))
    profile = made(tmp_path, *rows, stacks=STACKS, codes=CODES)
    sums = [sum(row["bytes"] for row in rows if lives(row, START + at * SECOND)) for at in range(90)]
    peak = sums.index(max(sums))
    assert total(profile, "host-bytes") == sums[peak]
    by_stack: Counter[int] = Counter()
    for row in rows:
        if lives(row, START + peak * SECOND):
            by_stack[row["stack"]] += row["bytes"]
    drawn = tree(profile, "host-bytes")
    assert sorted(value for value in drawn.values["host-bytes"].tolist() if value) == sorted(by_stack.values())


def lives(row: Row, at: int) -> bool:
    return bool(row["begin_ns"] <= at and (row["end_ns"] == 0 or row["end_ns"] > at))


def test_where_an_allocation_failed(tmp_path: Path) -> None:
    refusal = {"memory": "GPU 0", "bytes": 1 << 30, "free_bytes": 5, "time_ns": START + 2 * SECOND}
    profile = made(tmp_path, block(1, 3, 6, memory="GPU 0"), block(4, 5, 60, memory="GPU 0"), memory_refusals=[refusal])
    assert total(profile, "gpu-bytes@oom") == 6
    assert tree(profile, "gpu-bytes@oom").metric("gpu-bytes@oom").label == "GPU memory when an allocation failed"
    (tmp_path / "other").mkdir()
    with pytest.raises(AiflameError, match="no allocation failed for lack of memory"):
        total(made(tmp_path / "other", block(1, 3, 6, memory="GPU 0")), "gpu-bytes@oom")


def test_allocations_of_the_driver_have_the_stacks_of_their_calls(tmp_path: Path) -> None:
    def change(kind: AllocationKind, at: int, address: int, correlation: int) -> Row:
        api = int(GpuApi.CUDA)
        return {
            "kind": int(kind),
            "device": "GPU [0]",
            "api": api,
            "address": address,
            "bytes": 64,
            "time_ns": at,
            "correlation": correlation,
        }

    take, release = AllocationKind.TAKE, AllocationKind.RELEASE
    changes = [change(take, 10, 1, 5), change(release, 20, 1, 0), change(take, 30, 1, 6), change(take, 40, 2, 9)]
    launches = [{"api": int(GpuApi.CUDA), "correlation": number, "stack": stack, "thread": 1} for number, stack in ((5, 1), (6, 2))]
    profile = sealed(
        tmp_path / "p.aiflame",
        symbols=SYMBOLS,
        allocations=changes,
        launches=launches,
        stacks=STACKS,
        codes=CODES,
    )
    drawn = tree(profile, "gpu-bytes")
    names = drawn.frames["name"].to_list()
    assert {names[drawn.frame[node]]: value for node, value in enumerate(drawn.values["gpu-bytes"].tolist()) if value} == {
        "f": 64,
        "[unattributed: no stack]": 64,
    }
    assert total(profile, "allocations") == 3


@pytest.mark.parametrize("text", ["", "noon", "1", "s", "1..s", "-1s", "1e9s", "\u0661s", "1..2", "12345678901s"])
def test_other_texts_are_no_moments(text: str) -> None:
    with pytest.raises(AiflameError, match="no moment: use peak"):
        Moment.parse(text)


def test_a_profile_without_blocks_has_none_of_these_metrics(tmp_path: Path) -> None:
    profile = sealed(tmp_path / "p.aiflame")
    assert memory_metrics(profile) == {}
    for metric in OF_MEMORY:
        with pytest.raises(AiflameError, match=f"this profile has no {metric}"):
            tree(profile, metric)


@pytest.mark.parametrize(
    ("begin_ns", "end_ns"),
    [(20_000, 90_000), (0, 1), (86400_123456789, 86400_123456999), (5 * SECOND, 10 * SECOND), (999_999_999_999_999_998, 10**18 - 1)],
    ids=["microseconds", "one nanosecond", "a day", "whole seconds", "the last"],
)
def test_the_text_of_a_stretch_is_read_as_the_same_stretch(begin_ns: int, end_ns: int) -> None:
    moment = Moment.parse(stretch(begin_ns, end_ns))
    assert (moment.begin_ns, moment.end_ns) == (begin_ns, end_ns)


def test_a_block_that_ends_before_its_begin_takes_nothing_from_others(tmp_path: Path) -> None:
    damaged = block(9, 2, 1000)
    assert total(made(tmp_path, block(3, 4, 10), block(5, 6, 7), damaged), "host-bytes") == 10


FAR = (1 << 64) - 5


@pytest.mark.parametrize(
    ("tables", "metric", "bytes_of_all"),
    [
        ({"host_allocations": [{"bytes": 10, "weight": 100, "time_ns": FAR}]}, "host-allocated", 100),
        ({"allocations": [{"kind": int(AllocationKind.TAKE), "device": "GPU 0", "bytes": 3, "time_ns": FAR}] * 2}, "gpu-allocated", 6),
        ({"processes": [{"pid": 7, "start_ns": FAR}], "memory_blocks": [block(1, 2, 3)]}, "host-bytes@1s", 0),
    ],
    ids=["host", "device", "process"],
)
def test_moments_of_64_bits_in_a_damaged_profile(tables: dict[str, list[Row]], metric: str, bytes_of_all: int, tmp_path: Path) -> None:
    assert total(sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, **tables), metric) == bytes_of_all


@pytest.mark.parametrize("at", ["9" * 25, "9" * 5000])
def test_a_step_with_too_many_digits_is_no_moment(at: str, tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="no moment: use the number of a step"):
        at_moment(made(tmp_path, block(1, 3, 10)), "host-bytes", at)
