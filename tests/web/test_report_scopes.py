"""The switch between steady steps and the whole run: everything that the page says follows it, and so does the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from exported_profiles import through_kineto
from report_profiles import META, SLOWEST, STEPS, training
from report_visits import Opener, Visit
from stories import MAIN, US, Story

from aiflame.analyze.overview.scoped_tree import scoped_tree
from aiflame.attribute.trees.build import metrics
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.report.document import write

STEADY, WHOLE = "Steps 1 to 5: ", "Whole run: "
FLAME = "document.querySelector('.flame').flame"
PRESSED = '#scopes button[aria-pressed="true"]'


@pytest.fixture(scope="module", params=["recorded", "imported"])
def profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OpenedProfile:
    folder = tmp_path_factory.mktemp("training")
    recorded = training(folder)
    return recorded if request.param == "recorded" else through_kineto(recorded, folder)


@pytest.fixture(scope="module")
def report(profile: OpenedProfile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "r.html"
    write(profile, path)
    return path


def says(visit: Visit, beginning: str) -> None:
    visit.wait(f"document.querySelector('.ran .scope')?.textContent.startsWith('{beginning}')")


def total(visit: Visit) -> float:
    """The sum of the flame graph's metric."""
    visit.page.wait_for_selector(".flame:not([data-busy])")
    visit.wait("document.querySelector('.flame')?.flame?.model")
    value: float = visit.page.evaluate("document.querySelector('.flame').flame.model.total[0][0]")
    return value


def of_tree(profile: OpenedProfile, metric: str, *, whole_run: bool) -> int:
    return scoped_tree(profile, metric, "code", whole_run=whole_run).tree.total(metric)


def test_a_click_shows_the_other_scope_and_its_findings(visit: Opener, report: Path) -> None:
    seen = visit(report)
    says(seen, STEADY)
    steady = seen.texts(".finding p")
    seen.click(".scope-turn")
    says(seen, WHOLE)
    assert "--whole-run" not in seen.text(".ran .scope")
    assert seen.text(PRESSED) == "Whole run"
    whole = seen.texts(".finding p")
    assert any("of each step" in one for one in steady)
    assert not any("of each step" in one for one in whole)
    assert any("of the time" in one for one in whole)
    seen.click("#scopes button[data-scope=steps]")
    says(seen, STEADY)
    assert seen.texts(".finding p") == steady


def test_a_key_turns_it_and_the_address_keeps_it(visit: Opener, report: Path) -> None:
    seen = visit(report)
    seen.press("w")
    seen.wait_for_state(scope="run")
    says(seen, WHOLE)
    seen.page.reload()
    says(seen, WHOLE)
    seen.press("w")
    says(seen, STEADY)
    assert "scope" not in seen.state()
    seen.page.go_back()
    says(seen, WHOLE)
    seen.press("?")
    assert "steady steps or the whole run" in seen.text("dialog")


def test_links_lead_to_the_same_scope(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=overview&scope=run")
    says(seen, WHOLE)
    for link in seen.page.locator("main a, nav a").all():
        assert "scope=run" in link.get_attribute("href")
    seen.click("nav a[data-view=tables]")
    seen.wait_for_state(view="tables", scope="run")


def test_tables_follow(visit: Opener, report: Path) -> None:
    """Of each step two launches of sgemm; of the first no row in steady steps."""
    counts = []
    for scope in ("", "&scope=run"):
        seen = visit(report, f"#view=tables&table=kernels{scope}")
        seen.page.wait_for_selector(".tables [role=row]:has-text('sgemm')")
        counts.append(seen.text(".tables [role=row]:has-text('sgemm')").split())
    steady, whole = counts
    assert str(2 * (STEPS - 1)) in steady
    assert str(2 * STEPS) in whole


@pytest.mark.parametrize("metric", ["gpu-time", "cpu-time"])
def test_the_flame_graph_follows_and_has_the_sums_of_the_terminal(visit: Opener, report: Path, profile: OpenedProfile, metric: str) -> None:
    idle = "&idle=0"
    if metric not in metrics(profile):  # a trace has no CPU time
        metric = "wall-time"
    for scope, whole_run in (("", False), ("&scope=run", True)):
        seen = visit(report, f"#view=flame&metric={metric}{idle}{scope}")
        assert total(seen) == pytest.approx(of_tree(profile, metric, whole_run=whole_run))


def test_a_switch_keeps_the_view_its_state_and_the_frame(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=flame&metric=gpu-time&idle=0")
    steady = total(seen)
    seen.page.evaluate("""() => {
      const { flame } = document.querySelector(".flame");
      flame.zoomTo([...flame.model.frame].findIndex((row) => flame.model.frames.name[row] === "Tensor.backward"));
    }""")
    seen.wait("new URLSearchParams(location.hash.slice(1)).get('zoom')")
    seen.press("w")
    seen.wait(f"document.querySelector('.flame').flame.model.total[0][0] > {steady}")
    seen.wait(f"{FLAME}.model.frames.name[{FLAME}.model.frame[{FLAME}.chart.zoom]] === 'Tensor.backward'")
    assert {"view": "flame", "metric": "gpu-time", "scope": "run"}.items() <= seen.state().items()


def test_steps_of_the_scope_alone_are_in_the_grouping_by_step(visit: Opener, report: Path) -> None:
    names = f"[...{FLAME}.model.frame].map((row) => {FLAME}.model.frames.name[row])"
    steps = []
    for scope in ("", "&scope=run"):
        seen = visit(report, f"#view=flame&metric=gpu-time&by=step&idle=0{scope}")
        total(seen)
        steps.append(sorted({name for name in seen.page.evaluate(names) if name.startswith("Step.")}))
    assert steps == [[f"Step.{number}" for number in range(begin, STEPS)] for begin in (1, 0)]


def test_chosen_steps_are_shown_in_either_scope(visit: Opener, report: Path) -> None:
    """The first one lies outside of the steady steps."""
    seen = visit(report, "#view=flame&metric=gpu-time&idle=0&steps=0-0")
    assert total(seen) == pytest.approx(70 * US)
    seen = visit(report, f"#view=flame&metric=gpu-time&idle=0&steps={SLOWEST}-{SLOWEST}")
    assert total(seen) == pytest.approx(70 * US)


def test_a_report_of_the_whole_run_begins_with_it(visit: Opener, profile: OpenedProfile, tmp_path: Path) -> None:
    write(profile, tmp_path / "r.html", whole_run=True)
    seen = visit(tmp_path / "r.html")
    says(seen, WHOLE)
    seen.press("w")
    seen.wait_for_state(scope="steps")
    says(seen, STEADY)


def test_without_steps_there_is_no_switch(visit: Opener, tmp_path: Path) -> None:
    story = Story()
    for moment in range(100):
        story.met(moment * 5000, MAIN, clock=0)
    write(story.profile(tmp_path, META), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=overview&scope=steps")
    says(seen, WHOLE)
    assert seen.page.locator("#scopes").is_hidden()
    assert seen.page.locator(".scope-turn").count() == 0
    seen.press("w")
    says(seen, WHOLE)
    seen.press("?")
    assert "steady steps" not in seen.text("dialog")


def test_views_of_the_whole_run_say_so(visit: Opener, report: Path) -> None:
    seen = visit(report)
    said = {}
    for view in ("overview", "flame", "tables", "timeline", "scope", "source", "code"):
        seen.click(f"nav a[data-view={view}]")
        seen.wait(f"document.querySelector('.view:not([hidden])')?.dataset.of === '{view}'")
        said[view] = "this view: whole run" in seen.text("#scopes")
    assert [view for view, is_said in said.items() if is_said] == ["timeline", "scope", "source", "code"]
    seen.press("w")
    seen.wait(f"document.querySelector('{PRESSED}')?.textContent === 'Whole run'")
    assert "this view" not in seen.text("#scopes")


def test_a_narrow_window_has_room_for_it(visit: Opener, report: Path) -> None:
    seen = visit(report, viewport={"width": 420, "height": 700})
    says(seen, STEADY)
    wide: Callable[[str], float] = lambda selector: seen.page.eval_on_selector(selector, "one => one.getBoundingClientRect().right")  # noqa: E731
    assert wide("#help") <= 420
