"""A planted fault is named, with its remedy, among the first three sentences; a program that nearly has it is not accused.

AIFLAME_GPU_PROFILES names a folder of profiles that were recorded before: then no device is needed. With AIFLAME_GPU_RESULTS, the
findings of each program and the stalls of its kernels are written beside the results.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from gpu_runs import PROGRAMS, Recorder

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.findings.advice import GENERAL, fix
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.findings.gpu.facts import Facts
from aiflame.analyze.findings.idle import scope
from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.analysis import Analysis
from aiflame.profile.folder.meta import Meta

SECONDS = "3"
KERNELS = {
    "few-blocks": "Launch more blocks",
    "last-wave": "fill whole waves",
    "double-precision": "float32",
    "spills": "__launch_bounds__",
    "atomics": "within each block first",
    "shared-memory": "bank conflicts",
    "scattered-access": "Coalesce",
    "few-warps-shared": "less shared memory",
    "memory-bound": "Move fewer bytes",
    "serial-streams": "Let the streams run at once",
}
TORCH = {
    "launch-bound": "torch.compile()",
    "device-synchronize": "torch.cuda.synchronize()",
    "idle-sync": "keep the value on the GPU",
    "pageable-copies": "pin_memory",
    "copies": "torch.cuda.Stream()",
    "allocator": "torch.cuda.empty_cache()",
    "recompiling": "torch.compile(dynamic=True)",
    "specializing": "tl.constexpr",
    "autotuning": "triton.autotune",
    "unfused-optimizer": "fused=True",
    "no-tensor-cores": "set_float32_matmul_precision",
    "double-precision": "float32",
    "layer-precision": "its sisters",
}
AT_A_LINE = ("device-synchronize", "idle-sync", "pageable-copies", "copies", "allocator", "recompiling", "specializing", "autotuning")
FAULT = {"few-warps-shared": "few-warps"}
without_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
said: dict[str, Any] = {}


def listed(record: Recorder, program: str, fault: str) -> list[tuple[str, float, str, str, str]]:
    """Kind, share, sentence, remedy and place of each finding."""
    opened = kept(program, fault) or recorded(record, program, fault)
    profile = Analysis(opened.store)
    ordered = findings(profile, summarize(profile, opened.meta), limit=99)
    rows = [(one.kind, one.share, one.sentence, fix(one), one.view.place) for one in ordered]
    said[f"{program} {fault}"] = {"findings": rows, "evidence": evidence(profile, opened.meta)}
    if output := os.environ.get("AIFLAME_GPU_RESULTS"):
        Path(output).with_suffix(".causes.json").write_text(json.dumps(said, indent=1) + "\n")
    return rows


def recorded(record: Recorder, program: str, fault: str) -> aiflame.Profile:
    run = record(program, fault, SECONDS, timeout=120)
    assert run.result.status == 0, run.run.stderr
    return run.profile


def kept(program: str, fault: str) -> aiflame.Profile | None:
    """`planted_torch-near-copies.aiflame` in the folder AIFLAME_GPU_PROFILES, recorded before."""
    if not (folder := os.environ.get("AIFLAME_GPU_PROFILES")):
        return None
    path = Path(folder) / f"{Path(program).stem}-{fault}.aiflame"
    if not path.exists():
        pytest.skip(f"no {path.name} was kept")
    return aiflame.open(path)


def evidence(profile: Analysis, meta: Meta) -> dict[str, Any]:
    """To judge the sentences by: the heaviest kernels, and the instructions that they wait at."""
    analysis = profile_analysis(profile)
    facts = Facts(analysis, scope(summarize(profile, meta).occupancy, analysis))
    kernels = facts.kernels[:8]
    waits = {}
    for kernel in kernels[:3]:
        if (sampled := facts.sampled(kernel.name)) is not None:
            rows = sampled.rows.group_by("reason", "opcode", "blamed").agg(pl.col("samples").sum())
            waits[kernel.name] = rows.sort("samples", descending=True).head(12).rows()
    gaps = analysis.gaps.groups.select("cause", "file", "line", "count", "total", "share", "step_share").head(8).rows()
    copies = profile.scan("copies").select("kind", "bytes", "start_ns", "end_ns", "correlation").head(40).collect().rows()
    return {
        "scope": [facts.scope.label, facts.scope.whole_ns, facts.scope.share, facts.scope.steps],
        "kernels": [[getattr(kernel, name) for name in kernel.__slots__] for kernel in kernels],
        "waits": waits,
        "gaps": gaps,
        "copies": copies,
    }


def check(rows: list[tuple[str, float, str, str, str]], kind: str, remedy: str) -> None:
    everything = "\n".join(f"{named}: {sentence} => {way_out}" for named, _, sentence, way_out, _ in rows)
    assert kind in [row[0] for row in rows[:3]], everything
    _, share, _, way_out, place = next(row for row in rows if row[0] == kind)
    assert remedy in way_out, everything
    assert way_out != GENERAL and 0 < share <= 1
    file, _, line = place.rpartition(":")
    if kind in AT_A_LINE:
        assert (PROGRAMS / Path(file).name).read_text().splitlines()[int(line) - 1].endswith("# planted"), everything


@pytest.mark.parametrize("kind", KERNELS)
def test_a_planted_kernel_is_named(record: Recorder, kind: str) -> None:
    check(listed(record, "planted_kernels.py", FAULT.get(kind, kind)), kind, KERNELS[kind])


@pytest.mark.parametrize("kind", KERNELS)
def test_a_kernel_that_nearly_has_it_is_not_accused(record: Recorder, kind: str) -> None:
    rows = listed(record, "planted_kernels.py", f"near-{FAULT.get(kind, kind)}")
    assert kind not in [row[0] for row in rows], rows


@without_torch
@pytest.mark.parametrize("kind", TORCH)
def test_a_planted_torch_program_is_named(record: Recorder, kind: str) -> None:
    check(listed(record, "planted_torch.py", kind), kind, TORCH[kind])


@without_torch
@pytest.mark.parametrize("kind", TORCH)
def test_a_torch_program_that_nearly_has_it_is_not_accused(record: Recorder, kind: str) -> None:
    rows = listed(record, "planted_torch.py", f"near-{kind}")
    assert kind not in [row[0] for row in rows], rows
