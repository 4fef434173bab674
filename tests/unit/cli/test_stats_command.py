"""`aiflame stats`: the list, the reports, and errors that propose near names."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from calling import run_aiflame
from exported_profiles import STEPS, training
from kineto_events import event, launched, written

from aiflame.analyze.stats.table import REPORTS, named
from aiflame.cli.completion import SHELLS

PAGE = Path(__file__).parents[3] / "docs" / "stats.md"
US = 1000


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(training(tmp_path).path)


def test_it_lists_every_report_on_one_line() -> None:
    said = run_aiflame("stats")
    lines = said.out.splitlines()
    assert said.status == 0
    assert [line.split()[0] for line in lines if "." in line.split(" ")[0]] == list(REPORTS)
    listed = json.loads(run_aiflame("stats", "--json").out)
    assert listed["schema"] == "aiflame.stats/1" and [row["report"] for row in listed["reports"]] == list(REPORTS)


def test_every_report_of_a_recording_can_be_printed(recording: str) -> None:
    for name, report in REPORTS.items():
        said = run_aiflame("stats", name, recording)
        assert (said.status, said.err) == (0, ""), name
        assert said.out.startswith(f"{name}  {report.shows}")


def test_a_recording_has_the_figures_of_its_kernels(recording: str) -> None:
    document = json.loads(run_aiflame("stats", "cuda_gpu_kern_sum", recording, "--json").out)
    assert document["report"] == "nsys.cuda-gpu-kern-sum"
    rows = {row["name"]: (row["instances"], row["total_ns"]) for row in document["rows"]}
    assert rows["sgemm"][0] == STEPS and list(document["rows"][0]) == document["columns"]
    read = list(csv.DictReader(io.StringIO(run_aiflame("stats", "cuda_gpu_kern_sum", recording, "--csv").out)))
    assert {row["name"]: (int(row["instances"]), int(row["total_ns"])) for row in read} == rows


def test_it_writes_files(recording: str, tmp_path: Path) -> None:
    table, document = tmp_path / "t.csv", tmp_path / "t.json"
    assert run_aiflame("stats", "hta.temporal-breakdown", recording, "-o", str(table)).out == ""
    assert run_aiflame("stats", "hta.temporal-breakdown", recording, "--json", "-o", str(document)).out == ""
    (row,) = csv.DictReader(table.open())
    (same,) = json.loads(document.read_text())["rows"]
    assert {name: str(value) for name, value in same.items() if value is not None and not isinstance(value, float)}.items() <= row.items()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("HTA.temporal_breakdown", "hta.temporal-breakdown"),
        ("temporal_breakdown", "hta.temporal-breakdown"),
        ("get_temporal_breakdown", "hta.temporal-breakdown"),
        ("cuda_api_sum", "nsys.cuda-api-sum"),
        ("NVTX-SUM", "nsys.nvtx-sum"),
        ("key_averages", "torch.key-averages"),
        ("gpu_timeline", "tracelens.gpu-timeline"),
    ],
)
def test_names_may_be_written_as_the_tool_does(said: str, meant: str) -> None:
    assert named(said).name == meant


def test_no_name_means_two_reports() -> None:
    assert all(named(name) is report and named(name.partition(".")[2]) is report for name, report in REPORTS.items())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cuda-gpu-kernsum", "did you mean nsys.cuda-gpu-kern-sum?"),
        ("hta.temporal-brakedown", "did you mean hta.temporal-breakdown?"),
        ("keyaverages", "did you mean torch.key-averages?"),
        ("qqq", "`aiflame stats` lists them"),
    ],
)
def test_a_misspelt_name_proposes_near_ones(name: str, meant: str, recording: str) -> None:
    said = run_aiflame("stats", name, recording)
    assert (said.status, said.err) == (2, f"aiflame: stats: there is no report '{name}': {meant}\n")


def test_a_profile_without_a_report_asks_for_one(recording: str) -> None:
    said = run_aiflame("stats", recording)
    assert said.status == 2 and said.err.startswith("aiflame: stats needs the name of a report before ")


def test_two_formats_are_one_too_many(recording: str) -> None:
    assert run_aiflame("stats", "nvtx-sum", recording, "--json", "--csv").status == 2
    assert run_aiflame("stats", "--csv").status == 2


def test_an_empty_report_says_why(recording: str) -> None:
    said = run_aiflame("stats", "osrt_sum", recording)
    assert "Nothing to show: no call of a library of the system was traced" in said.out


def test_names_stay_on_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "60")
    file = written(tmp_path, launched("a_kernel_with_a_name", 10, 100, 50, 1))
    said = run_aiflame("stats", "cuda_gpu_kern_sum", str(file))
    assert "a_kernel_with_a_name" in said.out and "Not shown for lack of room: Stddev" in said.out
    assert all(len(line) <= 60 for line in said.out.splitlines())


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = written(tmp_path, launched("evil\x1b[2Jkernel", 10, 100, 50, 1))
    assert "\x1b" not in run_aiflame("stats", "cuda_gpu_kern_sum", str(file)).out


def test_a_device_and_its_time_have_headings_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    first, second = launched("gemm", 10, 100, 50, 1), launched("gemm", 20, 200, 60, 2)
    second[-1]["pid"] = second[-1]["args"]["device"] = 1
    said = run_aiflame("stats", "hta.launches", str(written(tmp_path, first, second))).out
    heading = next(line for line in said.splitlines() if "Device time" in line)
    assert re.search(r"Device\s{2,}", heading) and "60 µs" in said and "GPU [1]" in said


def test_columns_that_say_the_same_are_in_files_only(tmp_path: Path) -> None:
    calls = [event("python_function", f"nn.Module: {name}_0", 10 + at, 100 - 2 * at) for at, name in enumerate(("Net", "Linear"))]
    file = str(written(tmp_path, calls))
    said = run_aiflame("stats", "tracelens.module-tree", file).out
    assert "Path" not in said and "  Linear" in said
    assert run_aiflame("stats", "tracelens.module-tree", file, "--csv").out.splitlines()[0].endswith("module,path")


def test_a_shell_completes_the_names() -> None:
    pytest.importorskip("shtab")
    for shell in SHELLS:
        script = run_aiflame("completion", shell).out
        assert "hta.temporal-breakdown" in script and "nsys.cuda-api-sum" in script


def test_the_page_names_every_report_and_what_it_is_called_elsewhere() -> None:
    text = PAGE.read_text()
    cells = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z]+\.[a-z-]+)` \| (.*?) \|", text, re.MULTILINE)}
    assert cells == {name: f"`{report.theirs}`" for name, report in REPORTS.items()}
