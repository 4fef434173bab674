"""A planted fault is named on a trace of torch.profiler as on a recording (`test_planted_causes`, `test_planted_waits`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON, Recorder
from torch_programs import needs_torch

import aiflame
from aiflame.analyze.findings.listing import listing

CAUSES = PROGRAMS / "planted_causes.py"
TRAINING = Path(__file__).parent / "programs/planted_training.py"
SEEN = {
    "list-front": "front",
    "json": "encoding",
    "logging": "logs",
    "printing": "prints",
    "deep-copy": "deep",
    "regex-compile": "compiling",
    "imports": "importing",
}
"""The tracer sees calls. It does not see what happens within the interpreter (`in`, `+`, collections of garbage), and names a function that
is built in without its module: `dumps` may be anybody's."""
TRACED = """
from torch.profiler import ProfilerActivity, profile
for name in sys.argv[2:]:
    work = globals()[name]
    many, others = (max(1, round(part * calls_in_a_millisecond(of))) for of, part in ((work, 14), (arithmetic, 6)))
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as traced:
        for _ in range(many):
            work()
        for _ in range(others):
            arithmetic()
    traced.export_chrome_trace(f"{sys.argv[1]}/{name}.json")
"""


def run(*arguments: object) -> None:
    process = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == 0, process.stderr


def kinds(path: Path) -> dict[str, tuple[int, str]]:
    """By kind: the place in the list of findings, and the line."""
    by_kind = listing(aiflame.open(path).store, 9).findings
    return {one.finding.kind: (number, one.finding.view.place) for number, one in enumerate(by_kind)}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    (folder / "program.py").write_text(CAUSES.read_text().removesuffix("main()\n") + TRACED)
    run(PYTHON, folder / "program.py", folder, *SEEN.values())
    return folder


@needs_torch
@pytest.mark.parametrize("kind", SEEN)
def test_a_cause_that_the_tracer_sees_is_among_the_first_three_sentences(traces: Path, kind: str) -> None:
    by_kind = kinds(traces / f"{SEEN[kind]}.json")
    assert kind in by_kind, by_kind
    at, place = by_kind[kind]
    assert at < 3
    file, _, line = place.rpartition(":")
    # The tracer knows where a function begins, but not which of its lines runs.
    assert Path(file).name == "program.py"
    assert (traces / "program.py").read_text().splitlines()[int(line) - 1] == f"def {SEEN[kind]}():"


@needs_torch
@pytest.mark.parametrize(("fault", "kind"), [("data", "hot-line"), ("layer", "slow-layer")])
def test_a_training_has_the_same_finding_on_its_trace_and_its_recording(record: Recorder, tmp_path: Path, fault: str, kind: str) -> None:
    recorded = record(PYTHON, TRAINING, fault, options=("--cpu-rate", "499"))
    assert recorded.status == 0, recorded.stderr
    run(PYTHON, TRAINING, fault, tmp_path / "trace.json")
    in_recording, in_trace = (kinds(path) for path in (recorded.profile().path, tmp_path / "trace.json"))
    assert in_recording[kind][0] < 3
    assert in_trace[kind][0] < 3
    if kind == "hot-line":
        lines = TRAINING.read_text().splitlines()
        assert lines[int(in_recording[kind][1].rpartition(":")[2]) - 1].endswith("# planted")
        # Its comprehension begins at the planted line; since Python 3.12 it is no function of its own.
        begins = lines[int(in_trace[kind][1].rpartition(":")[2]) - 1]
        assert begins.endswith("# planted") or "def __getitem__" in begins


@needs_torch
def test_a_training_that_sleeps(tmp_path: Path) -> None:
    run(PYTHON, TRAINING, "sleep", tmp_path / "trace.json")
    at, _ = kinds(tmp_path / "trace.json")["waiting-sleep"]
    assert at < 3
