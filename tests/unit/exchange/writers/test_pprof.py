"""pprof's format, read by its documents, and by `go tool pprof` where Go is."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from calling import run_aiflame
from exported_profiles import listed, training
from hypothesis import given
from protobuf_fields import one, packed, several
from trees import TREES

from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Metric, Tree, from_stacks
from aiflame.exchange.writers import pprof
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.labelled import labelled, together
from aiflame.profile.tables.store import Profile

METRICS = ("cpu-time", "wall-time", "gpu-time", "gpu-stalls", "bytes")


@dataclass(frozen=True)
class Read:
    types: list[tuple[str, str]]
    samples: list[tuple[tuple[str, ...], list[int], dict[str, str | int]]]
    """Functions from the innermost, values, labels."""
    lines: set[tuple[str, str, int]]
    """function, file, line of each place"""

    def values(self, metric: str) -> Counter[str]:
        """The own value of each function."""
        at = [name for name, _ in self.types].index(metric)
        values: Counter[str] = Counter()
        for stack, numbers, _ in self.samples:
            values[stack[0]] += numbers[at]
        return +values


def read(data: bytes) -> Read:
    message = gzip.decompress(data)
    strings = [text.decode() for text in several(message, 6)]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    functions = {one(row, 1): row for row in several(message, 5)}
    mappings = {one(row, 1) for row in several(message, 3)}
    places: dict[int, str] = {}
    lines = set()
    for row in several(message, 4):
        (line,) = several(row, 4)
        function = functions[one(line, 1)]
        assert one(row, 2) in mappings | {0}, "0: the module is not known"
        places[int(one(row, 1))] = name = strings[int(one(function, 2))]
        lines.add((name, strings[int(one(function, 4))], int(one(line, 2))))
    assert 0 not in functions and 0 not in places and 0 not in mappings, "0 is no id"
    types = [(strings[int(one(row, 1))], strings[int(one(row, 2))]) for row in several(message, 1)]
    samples = []
    for row in several(message, 2):
        labels: dict[str, str | int] = {}
        for label in several(row, 3):
            labels[strings[int(one(label, 1))]] = strings[int(one(label, 2))] if one(label, 2) else int(one(label, 3))
        samples.append((tuple(places[at] for at in packed(row, 1)), packed(row, 2), labels))
        assert len(samples[-1][1]) == len(types)
    return Read(types, samples, lines)


def written(tree: Tree) -> Read:
    file = io.BytesIO()
    pprof.write(labelled(tree), Facts(), tree.metrics[0].name, file)
    return read(file.getvalue())


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("pprof"))


@pytest.fixture(scope="module")
def exported(profile: Profile) -> Path:
    file = profile.path.with_name("run.pb.gz")
    assert run_aiflame("export", str(profile.path), "--to", "pprof", "--raw", "--no-idle", "-o", str(file)).status == 0
    return file


@given(TREES)
def test_no_value_is_lost(tree: Tree) -> None:
    assert sum(sum(values) for _, values, _ in written(tree).samples) == tree.total("cpu-time")


def test_every_metric_is_a_type_of_sample_and_functions_have_the_values_of_top(profile: Profile, exported: Path) -> None:
    answer = read(exported.read_bytes())
    assert answer.types == [
        ("gpu-time", "nanoseconds"),
        ("launches", "count"),
        ("cpu-time", "nanoseconds"),
        ("wall-time", "nanoseconds"),
        ("gpu-stalls", "count"),
        ("gpu-latency", "count"),
        ("bytes", "bytes"),
    ]
    for metric in METRICS:
        expected = {name: own for name, (own, _, _) in listed(profile, metric, "function").items() if own and name != "[GPU idle]"}
        assert answer.values(metric) == expected and expected


def test_meaning_is_told_by_labels(exported: Path) -> None:
    answer = read(exported.read_bytes())
    gpu = {
        (labels.get("step"), labels.get("layer")): values[0]
        for stack, values, labels in answer.samples
        if stack[0] == "sgemm" and values[0]
    }
    assert gpu == {(step, "layers.0.attn"): 30_000 + 1000 * step for step in range(4)}
    backward = [labels for stack, values, labels in answer.samples if stack[0] == "softmax" and "Tensor.backward" in stack and values[0]]
    assert {labels["phase"] for labels in backward} == {"Backward"}
    assert {labels["process"] for _, _, labels in answer.samples} == {"train.py (4711)"}
    assert {labels.get("thread") for stack, _, labels in answer.samples if "train" in stack} == {"main thread"}
    assert not any({"train.py (4711)", "main thread", "Forward", "-"} & set(stack) for stack, _, _ in answer.samples)


def test_places_have_lines(exported: Path) -> None:
    lines = read(exported.read_bytes()).lines
    assert ("train", "/app/train.py", 12) in lines, "of samples of CPUs"
    assert ("train", "/app/train.py", 0) in lines, "the lines of launches are not known"
    assert ("sgemm", "/app/kernels.cu", 5) in lines


def test_values_that_lie_in_no_code_have_the_frame_they_lie_in() -> None:
    process = Frame("p (1)", Kind.PROCESS)
    answer = written(from_stacks([((process,), 3), ((process, Frame("f", Kind.C)), 4)], CPU_TIME))
    assert {(stack, values[0], labels["process"]) for stack, values, labels in answer.samples} == {
        (("p (1)",), 3, "p (1)"),
        (("f",), 4, "p (1)"),
    }


def test_trees_of_several_metrics_become_one() -> None:
    one_frame, other = Frame("f", Kind.C), Frame("g", Kind.C)
    both = together(
        [from_stacks([((one_frame,), 1)], CPU_TIME), from_stacks([((one_frame,), 2), ((one_frame, other), 3)], Metric("b", "bytes", ""))]
    )
    answer = written(both)
    assert {stack: values for stack, values, _ in answer.samples} == {("f",): [1, 2], ("g", "f"): [0, 3]}


def test_hostile_names_are_texts(tmp_path: Path) -> None:
    name = "a\n\x1b[31m\u202e;=cmd|' /C calc'!A0\0" + "x" * 10_000
    assert written(from_stacks([((Frame(name, Kind.C),), 1)], CPU_TIME)).samples[0][0] == (name,)


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not here (Debian: golang-go)")
@pytest.mark.parametrize("metric", METRICS)
def test_go_tool_pprof_prints_what_top_lists(profile: Profile, exported: Path, metric: str, tmp_path: Path) -> None:
    unit = {"gpu-stalls": "count", "bytes": "B"}.get(metric, "ns")
    command = [
        "go",
        "tool",
        "pprof",
        "-top",
        f"-sample_index={metric}",
        f"-unit={unit}",
        "-nodecount=1000",
        "-nodefraction=0",
        str(exported),
    ]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin", "GOCACHE": str(tmp_path), "PPROF_TMPDIR": str(tmp_path)}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert said.returncode == 0, said.stderr
    lines = said.stdout[said.stdout.index("cum%") :].splitlines()[1:]
    rows = {}
    for line in lines:
        flat, _, _, cum, _, name = line.split(None, 5)
        rows[name] = tuple(int(re.sub(r"\D", "", number)) for number in (flat, cum))
    top = listed(profile, metric, "function").items()
    # pprof writes C++ functions without their arguments.
    expected = {name.replace("()", ""): (own, total) for name, (own, total, _) in top if name != "[GPU idle]"}
    assert rows == expected


def test_a_terminal_gets_no_binary_data(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("aiflame.cli.export.sys.stdout", Terminal())
    from aiflame.cli.commands import run
    from aiflame.cli.support.parser import UsageError

    with pytest.raises(UsageError, match="no text for a terminal"):
        run(["export", str(profile.path), "--to", "pprof"])
