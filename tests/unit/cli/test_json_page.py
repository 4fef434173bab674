"""docs/json.md names each field of each command's document, and no other."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from device_work import MS, every_counter
from gate_profiles import training as repeated
from hostile_profiles import unsealed
from made_ranks import Made, job
from receiver import running
from report_profiles import training
from sampled_kernels import Sampled, line, profile
from stories import DEVICE, Story, train

from aiflame.analyze.intra.kernels import IntraKernel
from aiflame.cli.commands import COMMANDS, load, parser
from aiflame.cli.gate import REGRESSION
from aiflame.json_text import SCHEMAS, schema
from aiflame.render.report.server import Server

PAGE = (Path(__file__).parents[3] / "docs/json.md").read_text(encoding="utf-8")
LISTS = ("doctor", "tally", "intra")
NO_DOCUMENT = ("mcp", "attach", "agent", "keep")
"""The stdout of the first is the protocol's; the others only write a profile, or a store."""


def documented(command: str) -> set[str]:
    """The fields in the command's section."""
    name = f"--{command}" if command == "version" else command
    section = PAGE.partition(f"\n## aiflame {name}\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {field for cell in cells for field in re.findall(r"`([^`]+)`", cell)}


def fields(value: Any, path: str = "") -> Iterator[str]:
    """The paths of a document's values. An empty list, and null, have that of their key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if not value:
            yield f"{path}[]"
        for inner in value:
            yield from fields(inner, f"{path}[]")
    else:
        yield path


def of_type(kind: Any, path: str) -> Iterator[str]:
    """The paths that a dataclass may write."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        for name, inner in typing.get_type_hints(kind).items():
            if name in {field.name for field in dataclasses.fields(kind)}:
                yield from of_type(inner, f"{path}.{name}")
    elif typing.get_origin(kind) in (list, tuple):
        yield from of_type(typing.get_args(kind)[0], f"{path}[]")
    elif isinstance(kind, types.UnionType):
        for one in typing.get_args(kind):
            if one is type(None):
                yield path
            else:
                yield from of_type(one, path)
    else:
        yield path


def is_among(field: str, patterns: set[str]) -> bool:
    """`*` in a pattern stands for one key."""
    return any(re.fullmatch(re.escape(pattern).replace(r"\*", r"[^.]+"), field) for pattern in patterns)


def is_empty_list(field: str, patterns: set[str]) -> bool:
    return field.endswith("[]") and any(re.match(re.escape(field).replace(r"\*", r"[^.]+") + r"\.", pattern) for pattern in patterns)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("json")
    story = Story()
    for number in range(8):
        train(story, number, work=620, idle=380, wait="data")
    tuned = Story()
    for number in range(9):
        tuned.work(number, number, number + 1, ("benchmark_all_configs", "/torch/_inductor/runtime/triton_heuristics.py", 9))
    counted = Story()
    counted.work(0, 0, 500)
    stalled = Story()
    stalled.work(0, 0, 500)
    stalled.sampled("sgemm", {"wait": 5})
    alike = [Sampled(name, [(0, "LDG", line(7), {"wait": 5})]) for name in ("gemm_a", "gemm_b")]
    (folder / "stacks.txt").write_text("main;work 3\n")
    paths = {
        "collapsed": folder / "stacks.txt",
        "training": training(folder / "training.aiflame").path,
        "before": training(folder / "before.aiflame", kernels=5).path,
        "ranks": job(folder / "ranks.aiflame", Made(ranks=3, sleeps={(2, 2): 20}, skew={1: 5})),
        "spool": unsealed(folder / "spool.aiflame"),
        "kernels": unsealed(folder / "kernels.aiflame"),
        "steps": story.profile(folder / "steps").path,
        "counted": counted.profile(folder / "counted", gpu_counters=every_counter(counted.kernels, {"sgemm": 0.5}, MS, device=DEVICE)).path,
        "stalled": stalled.profile(folder / "stalled").path,
        "tuned": tuned.profile(folder / "tuned").path,
        "alike": profile(folder / "alike.aiflame", *alike).path,
        "first": repeated(folder, 1).path,
        "second": repeated(folder, 2).path,
        "folder": folder,
        "own": os.getpid(),
    }
    with running() as receiver, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield {**{name: str(path) for name, path in paths.items()}, "receiver": receiver.url}


RATIOS = ("overlapped", "exposed", "bound", "bound_ns", "two_buffers")
"""Computed from the times of `overlap`."""
RUNS: dict[str, list[list[str]]] = {
    "dump": [["dump", "{own}"]],
    "doctor": [["doctor"]],
    "findings": [["findings", "{training}"], ["findings", "{tuned}"], ["findings", "{ranks}"], ["findings", "{steps}"]],
    "top": [
        ["top", "{training}", "--by", "kernel"],
        ["top", "{tuned}"],
        ["top", "{counted}", "--by", "kernel"],
        ["top", "{steps}", "--by", "step"],
        ["top", "{training}", "--by", "layer"],
    ],
    "flame": [["flame", "{training}", "-o", "{folder}/f.svg"], ["flame", "{tuned}", "-o", "{folder}/f.svg"]],
    "annotate": [
        ["annotate", "{training}", "sgemm"],
        ["annotate", "{tuned}", "sgemm"],
        ["annotate", "{kernels}", "scale"],
        ["annotate", "{alike}", "gemm"],
        ["annotate", "{training}", "train.py", "--whole-run"],
    ],
    "diff": [["diff", "{before}", "{training}", "--all"], ["diff", "{steps}", "{steps}", "--all"], ["diff", "{alike}", "{alike}", "--all"]],
    "gate": [["gate", "{first}", "{second}"]],
    "tally": [["tally", "{training}", "--extended"], ["tally", "{ranks}", "--extended"]],
    "stats": [["stats"], ["stats", "hta.temporal-breakdown", "{training}"], ["stats", "torch.key-averages", "{training}"]],
    "ranks": [["ranks", "{ranks}"]],
    "intra": [["intra", "{spool}"]],
    "import": [["import", "{collapsed}", "-o", "{folder}/imported.aiflame"]],
    "merge": [["merge", "{stalled}", "{counted}", "-o", "{folder}/merged.aiflame"]],
    "report": [["report", "{training}", "-o", "{folder}/r.html"]],
    "timeline": [["timeline", "{training}", "-o", "{folder}/t.pftrace"]],
    "export": [
        ["export", "{training}", "-o", "{folder}/e.txt"],
        *(["export", "{training}", "--to", to, "-o", "{folder}/" + to] for to in ("chrome", "pprof", "parquet")),
    ],
    "push": [["push", "{training}", "{receiver}"], ["push", "--queue", "--list"], ["push", "--queue"]],
    "open": [["open", "{training}", "--no-browser"]],
    "demo": [["demo", "--device", "cpu", "--seconds", "0.2", "-o", "{folder}/demo.aiflame"]],
    "completion": [["completion", "bash"]],
    "version": [["--version"]],
    "ps": [["ps", "--all"]],
    "record": [["record", "-o", "{folder}/new.aiflame", "--", "/bin/true"]],
}


@pytest.mark.parametrize("command", RUNS)
def test_the_page_has_the_fields_that_the_command_writes(profiles: dict[str, str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if command == "completion":
        pytest.importorskip("shtab")
    monkeypatch.setattr(Server, "serve_forever", lambda self: None)
    written: set[str] = set()
    for run in RUNS[command]:
        arguments = [argument.format(**profiles) for argument in run]
        at = arguments.index("--") if "--" in arguments else len(arguments)
        said = run_aiflame(*arguments[:at], "--json", *arguments[at:])
        assert said.status in ((0, REGRESSION) if command == "gate" else (0,)), said.err
        document = json.loads(said.err if command == "record" else said.out)
        if command in LISTS:
            assert isinstance(document, list)
        else:
            assert next(iter(document.items())) == ("schema", schema(command))
        written |= set(fields(document))
    if command == "intra":
        written |= {*of_type(IntraKernel, "[]"), *(f"[].overlap.{name}" for name in RATIOS)}
    page = documented(command)
    assert sorted(field for field in written if not is_among(field, page) and not is_empty_list(field, page)) == []
    assert sorted(field for field in page if not any(is_among(one, {field}) for one in written)) == []


def test_every_command_has_a_document_with_a_version() -> None:
    assert set(RUNS) - {"version"} == set(COMMANDS) - {*NO_DOCUMENT}
    assert set(SCHEMAS) == set(RUNS)
    for name in set(COMMANDS) - {*NO_DOCUMENT}:
        assert any("--json" in action.option_strings for action in parser(name, load(name)).actions()), name


def test_a_field_that_is_not_on_the_page_is_found() -> None:
    assert not is_among("rows[].new", documented("top"))
    assert is_among("reasons.wait.samples", documented("annotate"))
    assert not is_among("reasons.wait.samples.more", documented("annotate"))


def test_stacks_on_stdout_are_no_document(profiles: dict[str, str]) -> None:
    said = run_aiflame("export", profiles["training"], "--json")
    assert (said.status, said.out) == (2, "") and "name one with -o" in said.err
