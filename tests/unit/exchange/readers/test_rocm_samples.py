"""Samples of program counters by rocprofv3: counted once more from the files themselves."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import rocm_files as made
from trees import paths

import aiflame
from aiflame.analyze.top import top
from aiflame.api import Profile

FILES = Path(__file__).parents[3] / "data/traces/rocprofv3"
METRIC = "gpu-samples"
OUTSIDE = re.compile(r"process |a\.out|thread$|\[unattributed: thread not recorded\]")
EACH = pytest.mark.parametrize("write", [made.write_json_samples, made.write_csv_samples], ids=lambda write: write.__name__)
Writer = Callable[[Path], Path]


@EACH
def test_each_sample_is_below_the_call_and_the_kernel(write: Writer, tmp_path: Path) -> None:
    profile = aiflame.open(write(tmp_path))
    stacks = paths(profile.tree(METRIC), METRIC)
    inside = {tuple(name for name in path if not OUTSIDE.match(name)): value for path, value in stacks.items()}
    launched, waits = ("train", "hipLaunchKernel", "addf(float, float*)"), "waitcnt"
    assert inside == {
        (*launched, "add.hip:12", "s_waitcnt vmcnt(0)", waits): 37,
        (*launched, "add.hip:13", "v_add_f32 v1, v2, v3", "[issued]"): 5,
        (*launched, "v_mfma_f32_4x4x1f32 a[0:3], v0, v1", "arbiter_win_ex_stall"): 3,
        ("[unknown kernel]", "s_endpgm", "a_new_reason"): 2,
    }
    assert profile.table("kernels").height == 2, "kernels have their times, too"
    assert "stall reasons of kernels" not in lacking(profile)


@pytest.mark.parametrize("name", ["pc_sampling_host_trap", "pc_sampling_host_trap_debug"])
def test_amds_own_examples(name: str) -> None:
    file = FILES / f"{name}.csv.gz"
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(file.read_bytes()).decode())))
    by_instruction = Counter(row["Instruction"] for row in rows)
    profile = aiflame.open(file)
    sums: Counter[str] = Counter()
    for path, value in paths(profile.tree(METRIC), METRIC).items():
        sums[path[-1]] += value
    assert sums == by_instruction
    assert "stall reasons of kernels" in lacking(profile)
    lines = Counter(row["Instruction_Comment"].rpartition("/")[2] for row in rows if row["Instruction_Comment"])
    if lines:
        assert dict(top(profile.tree(METRIC), "line", METRIC).select("name", "self").rows()) == lines


def test_amds_own_example_of_the_stochastic_method() -> None:
    """Each sample is at its instruction, and under it the reason why it was not issued."""
    file = FILES / "pc_sampling_stochastic_debug.csv.gz"
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(file.read_bytes()).decode())))
    why = [row["Stall_Reason"].removeprefix(made.REASON).lower() if row["Wave_Issued_Instruction"] == "0" else "[issued]" for row in rows]
    counted = Counter(zip((row["Instruction"] for row in rows), why, strict=True))
    profile = aiflame.open(file)
    sums: Counter[tuple[str, str]] = Counter()
    for path, value in paths(profile.tree(METRIC), METRIC).items():
        sums[path[-2], path[-1]] += value
    assert sums == counted and sum(sums.values()) == len(rows) > 90
    assert "waitcnt" in why and "stall reasons of kernels" not in lacking(profile)


def lacking(profile: Profile) -> tuple[str, ...]:
    imported = profile.meta.imported
    assert imported is not None
    return imported.lacks
