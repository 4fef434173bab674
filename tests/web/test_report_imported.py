"""Reports of imported files in a real browser: every view opens, findings lead to their evidence, and no page advises options of
`aiflame record`."""

from __future__ import annotations

from pathlib import Path

import planted_traces as planted
import pytest
from kineto_trace import US, KinetoTrace
from report_visits import Opener, Visit

import aiflame
from aiflame.render.report.document import write

TRACES = Path(__file__).parents[1] / "data" / "traces"
OPTIONS = ("--wall", "--cpu-rate", "--gpu-", "--telemetry", "--no-waits", "aiflame doctor")
FILES = {
    "kineto": None,
    "kineto-cpu": TRACES / "kineto" / "torch2.13_modules.json.gz",
    "pprof-heap": TRACES / "pprof" / "go_heap.pb.gz",
    "speedscope": TRACES / "speedscope" / "pyspy_threads.json.gz",
    "collapsed": TRACES / "collapsed" / "pyspy.txt.gz",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("imported")
    out = planted.trace(planted.layers).write(folder / "layers.json.gz")
    written = {}
    with pytest.MonkeyPatch.context() as patch:
        (folder / "cache").mkdir(0o700)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for name, file in FILES.items():
            written[name] = folder / f"{name}.html"
            write(aiflame.open(file or out).store, written[name])
    return written


def views(seen: Visit) -> list[str]:
    links: list[str] = seen.page.eval_on_selector_all("nav a[href*='view=']", "all => all.map((one) => one.getAttribute('href'))")
    return [link.partition("view=")[2] for link in links]


@pytest.mark.parametrize("name", FILES)
def test_each_view_opens_and_says_something(visit: Opener, reports: dict[str, Path], name: str) -> None:
    """An error of the page, or a request, fails the test when the visit ends."""
    seen = visit(reports[name])
    offered = views(seen)
    assert {"overview", "flame", "scope", "timeline", "tables"} <= set(offered)
    for view in offered:
        seen.go(view)
        seen.wait("document.querySelector('.view:not([hidden])').innerText.trim().length > 20")
        assert seen.view() == view
        assert seen.page.locator("#failed:not([hidden])").count() == 0, view
        said = seen.text("main")
        assert not any(option in said for option in OPTIONS), said


@pytest.mark.parametrize("name", FILES)
def test_each_finding_leads_to_its_evidence(visit: Opener, reports: dict[str, Path], name: str) -> None:
    seen = visit(reports[name])
    findings = seen.page.evaluate("JSON.parse(document.getElementById('summary').textContent).findings")
    for number, finding in enumerate(findings):
        seen.open()
        row = seen.page.locator(".finding").nth(number)
        assert row.locator("p").inner_text() == finding["sentence"]
        row.locator(".button").click()
        view = {"kernels": "code"}.get(finding["view"]["view"], finding["view"]["view"])
        seen.wait(f"document.querySelector('.view:not([hidden])').dataset.of === '{view}'")
    if not findings:
        assert seen.text(".calm h2") == "Nothing stands out"


def test_the_roofline_of_a_trace_is_modelled_and_says_so(visit: Opener, reports: dict[str, Path]) -> None:
    seen = visit(reports["kineto"], "#view=limits")
    seen.page.wait_for_selector(".limits svg[data-drawn]")
    assert "modelled from the shapes of ops" in seen.text(".limit-used")
    seen.page.locator(".limit-point").first.hover()
    seen.page.wait_for_selector(".limit-tip:not([hidden])")
    facts = seen.text(".limit-tip")
    # Six of eight products run at 82% of the peak, two at 27%: 2 * 4096**3 operations in 170 µs, and in 510.
    rate = 8 * 2 * 4096**3 / ((6 * 170 + 2 * 510) * US / 1e9) / 1e12
    assert f"{rate:.4g} TFLOP/s" in facts
    assert "operations for each byte\n1,365" in facts


def test_a_table_has_operations_and_their_intensity(visit: Opener, reports: dict[str, Path]) -> None:
    seen = visit(reports["kineto"], "#view=tables&table=ops")
    seen.page.wait_for_selector(".grid .row .cell")
    heads = seen.text(".grid")
    assert "Operations" in heads
    assert "FLOP/byte" in heads


def test_values_without_moments_say_so_in_the_heat_map_and_the_timeline(visit: Opener, reports: dict[str, Path]) -> None:
    seen = visit(reports["pprof-heap"], "#view=scope")
    seen.wait("document.querySelector('.view:not([hidden])').innerText.includes('does not say when')")
    assert not seen.page.locator(".sc-canvas").is_visible()
    seen.open("#view=timeline")
    seen.wait("document.querySelector('.view:not([hidden])').innerText.includes('does not say when')")


def test_the_first_screen_leaves_out_what_a_file_does_not_know(visit: Opener, reports: dict[str, Path]) -> None:
    seen = visit(reports["pprof-heap"])
    assert "0 threads" not in seen.text(".ran .facts")
    assert "0 bytes" not in seen.text("main")
    assert "took" not in seen.text(".ran .facts")


def test_a_trace_without_shapes_says_what_would_show_a_roofline(visit: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = KinetoTrace()
    out.call("aten::mm", 0, 50 * US)
    out.launch("gemm", 10 * US, 100 * US)
    write(aiflame.open(out.write(tmp_path / "t.json.gz")).store, tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=limits")
    seen.wait("document.querySelector('.limits .note')")
    assert "record_shapes=True" in seen.text(".limits .note")
