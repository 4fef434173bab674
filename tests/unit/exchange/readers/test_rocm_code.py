"""rocprofv3's samples with the code object beside the trace: lines and instructions come from it, and annotate and the report read them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rocm_files as made
from hsacos import SCALE, fake_objdump, hsaco
from trees import paths

import aiflame
from aiflame.analyze.kernel.annotate import annotate
from aiflame.api import Profile

INLINED, OWN, CALLED, START = 0x1954, 0x1930, 0x1828, 0x1900
BASE, DELTA = 0x7F00_0000_1200, 0x7F00_0000_1000
URI = f"file:///somewhere/else/scale.hsaco#offset=8&size={len(hsaco(SCALE))}"
STALLS = "gpu-stalls"


@pytest.fixture(autouse=True)
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib/llvm/bin").mkdir(parents=True)
    fake_objdump(tmp_path / "lib/llvm/bin", "show()")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))


def trace(folder: Path, change: Callable[[dict[str, Any]], None] = lambda process: None) -> Path:
    """Two dispatches of `scale`: the first has nine samples, the second three; and one sample of another code object."""
    given = made.results()
    process = given["rocprofiler-sdk-tool"][0]
    process["kernel_symbols"] = [{"kernel_id": 7, "kernel_name": "scale.kd"}]
    for number, kernel in enumerate(process["buffer_records"]["kernel_dispatch"]):
        kernel["dispatch_info"] = {**kernel["dispatch_info"], "dispatch_id": 1 + number}
    process["code_objects"] = [
        {"code_object_id": 3, "uri": URI, "load_base": BASE, "load_delta": DELTA, "storage_type": 2},
        {"code_object_id": 4, "uri": "memory://9#offset=0x0&size=0", "load_base": 0, "load_delta": 0},
    ]
    samples = [(1, INLINED, 0, "WAITCNT", 5, 3), (1, OWN, 1, "NONE", 3, 3), (1, CALLED, 0, "ALU_DEPENDENCY", 1, 3)]
    samples += [(2, INLINED, 0, "WAITCNT", 3, 3), (2, 0x40, 0, "WAITCNT", 1, 4)]
    process["buffer_records"]["pc_sample_stochastic"] = [
        {
            "inst_index": -1,
            "record": {
                "dispatch_id": dispatch,
                "corr_id": {"internal": dispatch, "external": 0},
                "timestamp": made.START + 130,
                "wave_issued": bool(issued),
                "pc": {"code_object_id": number, "code_object_offset": address + DELTA - BASE},
                "snapshot": {"stall_reason": made.REASON + reason},
            },
        }
        for dispatch, address, issued, reason, often, number in samples
        for _ in range(often)
    ]
    change(process)
    file = folder / "4711_results.json"
    file.write_text(json.dumps(given))
    return file


def with_code(folder: Path) -> Path:
    (folder / "scale.hsaco").write_bytes(b"\0" * 8 + hsaco(SCALE))
    return trace(folder)


def sampled(profile: Profile) -> dict[str, int]:
    return {name: count.samples for name, count in annotate(profile.store, "scale").reasons.items()}


def test_samples_are_at_the_lines_of_the_code_object(tmp_path: Path) -> None:
    tree = aiflame.open(with_code(tmp_path)).tree(STALLS, detail="instruction")
    lines = {path[-3:]: value for path, value in paths(tree, STALLS).items() if "square scale.cl:2" in path and "slow_part" not in path}
    assert sum(lines.values()) == 8
    assert int(tree.values[STALLS].sum()) == 12


def test_each_launch_has_its_own_samples(tmp_path: Path) -> None:
    profile = aiflame.open(with_code(tmp_path))
    windows = profile.table("gpu_windows").sort("launched_by")
    assert windows.select("launched_by", "samples", "device").rows() == [
        (1, 9, "AMD Instinct MI300X [0]"),
        (2, 3, "AMD Instinct MI300X [0]"),
    ]
    kernels = profile.table("kernels").sort("correlation")
    assert windows.select("begin_ns", "end_ns").rows() == kernels.select("start_ns", "end_ns").rows()


def test_annotate_reads_them(tmp_path: Path) -> None:
    profile = aiflame.open(with_code(tmp_path))
    assert sampled(profile) == {"waitcnt": 8, "selected": 3}
    answer = annotate(profile.store, "scale")
    assert answer.disassembled and answer.language == "ISA"
    hot = {one.offset + START: [(place.function, place.line) for place in one.chain] for one in answer.instructions if one.count.samples}
    assert hot == {INLINED: [("square", 2), ("scale", 12)], OWN: [("scale", 13)]}


def test_rocprofv3s_own_copy_of_a_code_object_is_taken(tmp_path: Path) -> None:
    def change(process: dict[str, Any]) -> None:
        process["strings"]["code_object_snapshot_filenames"] = ["", "", "", "host_4711_code_object_id_3.out"]

    (tmp_path / "host_4711_code_object_id_3.out").write_bytes(hsaco(SCALE))
    assert sampled(aiflame.open(trace(tmp_path, change))) == {"waitcnt": 8, "selected": 3}


def test_without_the_code_object_the_samples_are_as_the_trace_has_them(tmp_path: Path) -> None:
    profile = aiflame.open(trace(tmp_path))
    assert not profile.store.has("gpu_samples") or profile.table("gpu_samples").is_empty()
    assert int(profile.tree("gpu-samples").values["gpu-samples"].sum()) == 13


def test_a_path_in_a_trace_leads_nowhere_else(tmp_path: Path) -> None:
    """Neither by a path with folders nor by a link or a pipe of that name."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "scale.hsaco").write_bytes(hsaco(SCALE))

    def change(process: dict[str, Any]) -> None:
        process["strings"]["code_object_snapshot_filenames"] = ["", "", "", "../scale.hsaco"]
        process["code_objects"][0]["uri"] = f"file://{tmp_path}/scale.hsaco"

    file = trace(inner, change)
    os.mkfifo(inner / "scale.hsaco")
    profile = aiflame.open(file)
    assert not profile.store.has("gpu_samples") or profile.table("gpu_samples").is_empty()


def test_a_code_object_that_comes_later_is_seen(tmp_path: Path) -> None:
    file = trace(tmp_path)
    aiflame.open(file)
    with_code(tmp_path)
    assert sampled(aiflame.open(file)) == {"waitcnt": 8, "selected": 3}
