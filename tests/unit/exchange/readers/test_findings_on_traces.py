"""Findings on imported traces of programs with one fault each: the fault is named, and a program without it is not accused."""

from __future__ import annotations

from pathlib import Path

import planted_traces as planted
import pytest
from kineto_trace import US
from planted_traces import MS

import aiflame
from aiflame.analyze.findings.listing import Listing, listing

GPU = {
    "launch-bound": (planted.launch_bound, ""),
    "device-synchronize": (planted.device_synchronize, "train.py:20"),
    "idle-sync": (planted.item, "train.py:20"),
    "idle-data": (planted.data, "train.py:20"),
    "idle-host": (planted.host, "train.py:44"),
    "pageable-copies": (planted.pageable_copies, "train.py:31"),
    "unfused-optimizer": (planted.optimizer, "train.py:20"),
    "communication": (planted.communication, ""),
    "allocator": (planted.allocator, "train.py:20"),
    "no-tensor-cores": (planted.no_tensor_cores, "model.py:7"),
    "layer-below-limit": (planted.layers, ""),
}
ALWAYS = "hot-group"
"""The heaviest kernel is named in every program."""
OPTIONS = ("--wall", "--cpu-rate", "--gpu-", "--telemetry", "--no-waits")


def listed(path: Path) -> Listing:
    answer = listing(aiflame.open(path).store, 9)
    said = "\n".join([*(f"{one.finding.sentence} {one.fix}" for one in answer.findings), *answer.missing, *answer.notes])
    assert not any(option in said for option in OPTIONS), said
    return answer


@pytest.mark.parametrize("kind", GPU)
def test_a_planted_cause_alone_is_named_with_its_place(tmp_path: Path, kind: str) -> None:
    step, place = GPU[kind]
    answer = listed(planted.trace(step).write(tmp_path / "trace.json.gz"))
    by_kind = {one.finding.kind: one.finding for one in answer.findings[:3]}
    assert kind in by_kind, [one.finding.sentence for one in answer.findings]
    if place:
        assert by_kind[kind].view.place == place, by_kind[kind].sentence
    others = {one.finding.kind for one in answer.findings if one.finding.share >= 0.1} - {kind, ALWAYS}
    assert others == set()


def test_a_healthy_program_has_no_cause(tmp_path: Path) -> None:
    answer = listed(planted.trace(planted.healthy).write(tmp_path / "trace.json.gz"))
    assert [one.finding.kind for one in answer.findings] == [ALWAYS]


def test_the_layer_that_reaches_less_is_named_as_in_a_recording(tmp_path: Path) -> None:
    answer = listed(planted.trace(planted.layers).write(tmp_path / "trace.json.gz"))
    sentence = next(one.finding.sentence for one in answer.findings if one.finding.kind == "layer-below-limit")
    # 2 * 4096**3 operations take 139 µs at the peak: 170 µs are 82% of it, 510 µs 27%.
    assert sentence.startswith("Block.2 reaches 27% of the tensor cores' rate where its sisters reach 82%")


def test_a_call_of_the_allocator_is_not_said_to_be_a_sample(tmp_path: Path) -> None:
    answer = listed(planted.trace(planted.allocator).write(tmp_path / "trace.json.gz"))
    assert "samples" not in next(one.finding.sentence for one in answer.findings if one.finding.kind == "allocator")


EVEN = [100 * US] * 4


@pytest.mark.parametrize(
    ("kernels", "waits", "rank", "why"),
    [
        ([100 * US, 100 * US, 200 * US, 100 * US], [0] * 4, 2, "it computed longer"),
        (EVEN, [0, 3 * MS, 0, 0], 1, "its program did something else (slow_batch (train.py:44))"),
    ],
    ids=["slow", "late"],
)
def test_the_rank_that_the_others_wait_for_is_named(tmp_path: Path, kernels: list[int], waits: list[int], rank: int, why: str) -> None:
    answer = listed(planted.ranks(tmp_path / "job", kernels, waits))
    by_kind = {one.finding.kind: one.finding for one in answer.findings}
    assert answer.findings[0].finding.kind == "straggler"
    assert f"Rank {rank} comes last to 11 of 12 all-reduces, late by 3 ms each" in by_kind["straggler"].sentence
    assert why in by_kind["straggler"].sentence
    assert "85% of it to wait for the last rank" in by_kind["exposed-communication"].sentence


def test_even_ranks_have_no_straggler(tmp_path: Path) -> None:
    answer = listed(planted.ranks(tmp_path / "job", EVEN, [0] * 4))
    kinds = {one.finding.kind for one in answer.findings}
    assert "straggler" not in kinds
    assert "critical-path" not in kinds
