"""The report's page of ranks in a real browser. Rank 2 of the job sleeps for 20 ms before the backward work of layer 1, in each step; a
layer takes 10 ms in each direction, an all-reduce 2 ms, the optimizer 5 ms."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from made_ranks import Made, job
from rank_pages import SLEEPS, many_ranks
from report_profiles import training
from report_visits import COPIED, Opener, Visit

import aiflame
from aiflame.render.report.document import write

MANY = 1024


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole report of four ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    write(aiflame.open(job(folder / "job.aiflame", SLEEPS)).store, folder / "r.html")
    return folder / "r.html"


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_ranks(tmp_path_factory.mktemp("many"), MANY)


def shown(visit: Visit) -> Visit:
    """Once all of the page is there."""
    visit.page.wait_for_function("() => document.querySelector('.ranks')?.dataset.settled !== undefined", timeout=20_000)
    visit.page.wait_for_function("() => document.querySelector('[data-table=ranks] .row')", timeout=20_000)
    return visit


def cells(visit: Visit, table: str) -> list[list[str]]:
    rows = visit.page.locator(f"[data-table={table}] .row")
    return [rows.nth(at).locator(".cell").all_inner_texts() for at in range(rows.count())]


def headings(visit: Visit, table: str) -> list[str]:
    return visit.texts(f"[data-table={table}] .grid-head .cell")


def of(visit: Visit, table: str, name: str) -> list[str]:
    """The texts of a column, in any order of sorting."""
    at = [heading.rstrip(" ↑↓") for heading in headings(visit, table)].index(name)
    return [row[at] for row in cells(visit, table)]


def waits_for(visit: Visit, table: str, first: str) -> None:
    visit.page.wait_for_function(
        "([table, first]) => document.querySelector(`[data-table=${table}] .row .cell`)?.innerText === first",
        arg=[table, first],
        timeout=20_000,
    )


def test_every_rank_has_its_times_as_numbers_and_as_a_bar(visit: Opener, four: Path) -> None:
    """In a step of 87 ms, rank 2 works for 65 ms and sleeps for 20; the others wait for these 20."""
    seen = shown(visit(four, "#view=ranks"))
    assert of(seen, "ranks", "Rank") == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert of(seen, "ranks", "Compute") == ["74.7%"] * 4
    assert of(seen, "ranks", "Idle") == ["0.00%", "0.00%", "20.7%", "0.00%"]
    assert of(seen, "ranks", "Came last") == ["0", "0", "6", "0"]
    bars = seen.page.eval_on_selector_all(
        "[data-table=ranks] .stack",
        "bars => bars.map((bar) => [...bar.children].map((part) => part.className + Math.round(parseFloat(part.style.width))))",
    )
    assert bars[0] == ["busy75", "communication25"]
    assert bars[2] == ["busy75", "communication5", "idle21"]


def test_the_straggler_is_named_with_its_phase_layer_and_cause(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks"))
    assert "Rank 2 comes last to 6 of 6 all-reduces" in seen.text(".findings li")
    assert cells(seen, "stragglers")[0][:5] == ["rank 2", "Backward", "layers.1", "slept, or waited off the CPU", "all-reduce"]


def test_who_came_last_to_each_collective_stands_there_with_the_reason(visit: Opener, four: Path) -> None:
    """After the all-reduce of layer 1 nobody waits for rank 2 any more, but for the work that it has still to do."""
    seen = shown(visit(four, "#view=ranks"))
    last = {(row[0], row[3], row[4], row[9]) for row in cells(seen, "lates")}
    assert {(f"all-reduce {3 * step + 1}", "layers.1", "rank 2", "slept, or waited off the CPU") for step in range(1, 6)} <= last


def test_tables_are_sorted_and_the_address_says_so(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks&sort=-idle"))
    waits_for(seen, "ranks", "rank 2")
    seen.page.locator("[data-table=ranks] .grid-head button", has_text="Rank").click()
    waits_for(seen, "ranks", "rank 0")
    assert seen.state()["sort"] == "rank"
    seen.page.locator("[data-table=lates] .grid-head button", has_text="Late by").click()
    seen.wait("location.hash.includes('sortLates=-late')")


def test_a_filter_finds_ranks_and_their_collectives(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks"))
    seen.press("/")
    seen.page.keyboard.type("rank 3")
    waits_for(seen, "ranks", "rank 3")
    assert of(seen, "ranks", "Rank") == ["rank 3"]
    assert seen.state()["filter"] == "rank 3"


def test_a_rank_leads_into_the_flame_graph_by_rank(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks"))
    seen.page.locator("[data-table=ranks] .row a", has_text="rank 2").first.click()
    seen.page.wait_for_selector(".flame[data-settled]")
    assert seen.view() == "flame"
    assert (seen.state()["by"], seen.state()["focus"]) == ("rank", "rank 2")
    names = seen.page.evaluate(
        "() => { const { model } = document.querySelector('.flame').flame; return [1].map((node) => model.name(node)); }"
    )
    assert names == ["rank 2"]


def test_a_rank_is_compared_with_the_mean_of_the_others(visit: Opener, tmp_path: Path) -> None:
    """Rank 1 computes 30 ms more in the backward of layer 2, in each of 6 steps, all but the first of them steady; all else is the same
    in all ranks."""
    write(aiflame.open(job(tmp_path / "job.aiflame", Made(ranks=3, longer={(1, 2): 30}))).store, tmp_path / "r.html")
    seen = shown(visit(tmp_path / "r.html", "#view=ranks"))
    seen.page.locator("[data-table=ranks] .row .rank-rest").nth(1).click()
    seen.page.wait_for_selector(".flame[data-settled]")
    assert seen.texts(".flame-chip .flame-says") == ["rank 1", "compared with the other ranks, their mean"]
    script = "() => { const { model } = document.querySelector('.flame').flame; return [model.total[0][0], model.base[0]]; }"
    now, others = seen.page.evaluate(script)
    assert (now - others) / 1e6 == 5 * 30
    assert others / 1e6 == 5 * (2 * 3 * 10 + 5)


def test_the_map_has_a_cell_for_each_rank_and_step_and_tells_it(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks&show=idle"))
    box = seen.page.locator(".rank-map").bounding_box()
    seen.page.mouse.move(box["x"] + 64 + (box["width"] - 66) * 3.5 / 6, box["y"] + 22 * 2.5)
    assert seen.text(".rank-caption") == "rank 2, step 3: 18 ms · Idle"
    seen.page.mouse.click(box["x"] + 64 + (box["width"] - 66) * 4.5 / 6, box["y"] + 22 * 2.5)
    seen.wait("location.hash.includes('step=4')")
    assert "Step 4 takes" in seen.text(".rank-card[aria-label='Critical path']")


def test_the_map_goes_by_keys_and_is_told_aloud(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks&show=idle&step=1"))
    seen.page.focus(".rank-map")
    seen.press("ArrowDown", "ArrowDown", "ArrowRight")
    assert seen.page.text_content("#spoken") == "rank 2, step 2: 18 ms · Idle"
    seen.press("Enter")
    seen.wait("location.hash.includes('step=2')")


def test_the_critical_path_of_a_step_is_chosen_by_hand_and_by_keys(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks&step=2"))
    path = "[aria-label='Critical path']"
    assert "Step 2 takes 87 ms" in seen.text(path)
    works = [row for row in cells(seen, "stretches") if row[1] == "works, all others wait"]
    assert [row[0] for row in works] == ["rank 2"]
    seen.press("]")
    seen.wait("location.hash.includes('step=3')")
    seen.page.fill(".rank-step", "5")
    seen.press("Tab")
    seen.wait("location.hash.includes('step=5')")
    seen.page.wait_for_function("() => document.querySelector(\"[aria-label='Critical path']\").innerText.includes('Step 5 takes')")


def test_ranks_are_copied_as_csv(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks", before=COPIED))
    seen.press("c")
    seen.wait("window.copied !== undefined")
    rows = list(csv.DictReader(io.StringIO(seen.page.evaluate("window.copied"))))
    assert [row["Rank"] for row in rows] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert [round(float(row["Idle"]), 3) for row in rows] == [0, 0, 0.207, 0]


def test_a_thousand_ranks_are_no_thousand_rows(visit: Opener, thousand: Path) -> None:
    """Those that others wait for come first; the last is a key away."""
    seen = shown(visit(thousand, "#view=ranks"))
    waits_for(seen, "ranks", "rank 2")
    assert seen.page.locator("[data-table=ranks] .row").count() < 150
    assert seen.page.evaluate("() => document.querySelectorAll('*').length") < 5_000
    seen.page.focus("[data-table=ranks] .grid")
    seen.press("End")
    seen.page.wait_for_function(f"() => document.querySelector('[data-table=ranks] .chosen .cell')?.innerText === 'rank {MANY - 1}'")
    assert seen.page.eval_on_selector(".rank-map", "canvas => canvas.clientHeight") >= MANY


def test_the_page_is_dark_where_the_system_is(visit: Opener, four: Path) -> None:
    light, dark = (shown(visit(four, "#view=ranks", color_scheme=scheme)) for scheme in ("light", "dark"))
    corner = "canvas => [...canvas.getContext('2d').getImageData(1, 1, 1, 1).data].slice(0, 3)"
    assert max(dark.page.eval_on_selector(".rank-map", corner)) < 60 < 200 < min(light.page.eval_on_selector(".rank-map", corner))


def test_a_narrow_window_shows_all_of_it(visit: Opener, four: Path) -> None:
    seen = shown(visit(four, "#view=ranks", viewport={"width": 420, "height": 800}))
    assert seen.page.evaluate("() => document.querySelector('.view:not([hidden])').scrollWidth") <= 420


def test_findings_about_ranks_lead_to_the_page(visit: Opener, four: Path) -> None:
    seen = visit(four)
    seen.page.locator(".finding", has_text="comes last").locator(".button").click()
    shown(seen)
    assert seen.view() == "ranks"


def test_a_profile_without_ranks_has_no_such_page(visit: Opener, tmp_path: Path) -> None:
    write(training(tmp_path), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=ranks")
    assert "Ranks" not in seen.texts("nav a")
    assert seen.view() == "overview"
    seen.press("7")
    assert seen.view() == "overview"
