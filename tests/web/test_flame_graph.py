"""The SVG flame graph in a browser. The small tree: main 100% → (work 70% → Gemm 60% → work 20%), idle_wait 30%."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sample_trees as trees
from viewer import Viewer

from aiflame.render.flame_svg import svg

View = Callable[..., Viewer]
CHART_WIDTH = 1200 - 20


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("svg") / "small flame.svg"
    svg.write(trees.small(), "cpu-time", path, "Small", "by construction")
    return path


@pytest.fixture(scope="module")
def differential(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("svg") / "diff.svg"
    svg.write_diff(trees.difference(), path, "Difference", "")
    return path


def test_widths_are_shares_of_the_total(view: View, small: Path) -> None:
    viewer = view(small)
    widths = {bar["name"]: bar["width"] / CHART_WIDTH for bar in viewer.bars() if bar["name"] != "work"}
    assert widths == pytest.approx({"all": 1, "main": 1, "Gemm": 0.6, "idle_wait": 0.3}, abs=0.002)
    assert sorted(bar["width"] / CHART_WIDTH for bar in viewer.bars() if bar["name"] == "work") == pytest.approx([0.2, 0.7], abs=0.002)


def test_a_click_zooms_to_a_frame_and_keeps_its_callers(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.click("Gemm")
    assert viewer.names() == {"all", "main", "work", "Gemm"}
    assert viewer.bar("Gemm")["width"] == pytest.approx(CHART_WIDTH, abs=1)
    assert "above" in viewer.bar("main")["classes"]
    assert "above" not in viewer.bar("Gemm")["classes"]


@pytest.mark.parametrize("how", ["button", "Escape", "0", "root"])
def test_reset_shows_everything_again(view: View, small: Path, how: str) -> None:
    viewer = view(small)
    viewer.click("Gemm")
    if how == "button":
        viewer.button("Reset zoom").click()
    elif how == "root":
        viewer.click("all")
    else:
        viewer.page.keyboard.press(how)
    assert "idle_wait" in viewer.names()
    assert viewer.button("Reset zoom").is_disabled()


@pytest.mark.parametrize("how", ["button", "u", "browser"])
def test_undo_goes_back_one_view(view: View, small: Path, how: str) -> None:
    viewer = view(small)
    viewer.click("work")
    viewer.click("Gemm")
    if how == "button":
        viewer.button("Undo").click()
    elif how == "u":
        viewer.page.keyboard.press("u")
    else:
        viewer.page.go_back()
    viewer.page.wait_for_function("() => location.hash === '#x=3'")
    assert viewer.bar("work")["width"] == pytest.approx(CHART_WIDTH, abs=1)
    assert viewer.bar("Gemm")["width"] == pytest.approx(CHART_WIDTH * 6 / 7, abs=1)


def test_undo_never_leaves_the_page(view: View, small: Path) -> None:
    viewer = view(small)
    assert viewer.button("Undo").is_disabled()
    viewer.page.keyboard.press("u")
    viewer.page.wait_for_timeout(100)
    assert "small" in viewer.page.url


def test_search_counts_nested_matches_once(view: View, small: Path) -> None:
    viewer = view(small)
    assert viewer.search("^work$") == "Matched 70.0% · 2 frames"
    assert {bar["name"] for bar in viewer.bars() if "match" in bar["classes"]} == {"work"}


def test_search_adds_up_separate_matches(view: View, small: Path) -> None:
    assert view(small).search("idle|Gemm").startswith("Matched 90.0%")


def test_search_is_relative_to_the_zoomed_frame(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.click("Gemm")
    assert viewer.search("^work$").startswith("Matched 33.3%")


def test_case_is_ignored_until_the_switch_is_on(view: View, small: Path) -> None:
    viewer = view(small)
    assert viewer.search("gemm").startswith("Matched 60.0%")
    viewer.button("Aa").click()
    assert viewer.matched().startswith("Matched 0.0")
    assert viewer.search("Gemm").startswith("Matched 60.0%")
    viewer.button("Aa").click()
    assert viewer.search("GEMM").startswith("Matched 60.0%")


def test_a_pattern_that_is_no_expression_is_said_and_harmless(view: View, small: Path) -> None:
    viewer = view(small)
    assert viewer.search("(") == "not a regular expression"
    assert viewer.search("idle").startswith("Matched 30.0%")


@pytest.mark.parametrize(("pattern", "share"), [("module:libmath", "60.0%"), ("file:app.py:9", "70.0%"), ("kind:waiting", "30.0%")])
def test_search_in_other_columns(view: View, small: Path, pattern: str, share: str) -> None:
    assert view(small).search(pattern).startswith(f"Matched {share}")


def test_next_match_walks_through_the_matches(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.search("^work$")
    viewer.page.keyboard.press("Tab")
    seen = []
    for _ in range(3):
        viewer.page.keyboard.press("n")
        seen.append(viewer.page.evaluate("Number(document.activeElement.dataset.node)"))
    assert seen[0] == seen[2] != seen[1]


def test_the_address_holds_the_view_and_brings_it_back(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.click("work")
    viewer.search("Gemm|[+ &#]x")
    viewer.button("By width").click()
    address, bars, matched = viewer.hash(), viewer.bars(), viewer.matched()
    assert address.startswith("#x=")
    viewer.open(address)
    assert viewer.bars() == bars
    assert viewer.matched() == matched
    assert viewer.pattern() == "Gemm|[+ &#]x"


def test_going_back_through_zoom_and_search(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.page.focus(".af-search")
    viewer.page.keyboard.type("idle")
    viewer.page.keyboard.press("Enter")
    viewer.click("work")
    viewer.page.go_back()
    viewer.page.wait_for_function("() => location.hash === '#s=idle'")
    assert viewer.matched().startswith("Matched 30.0%")
    viewer.page.go_back()
    viewer.page.wait_for_function("() => location.hash === ''")
    assert viewer.matched() == ""
    assert viewer.pattern() == ""


@pytest.mark.parametrize("state", ["#x=99999", "#x=-1", "#x=abc", "#k=x,99", "#w=7", "#%%%", "#h=0,1,2,3,4,5,17", "#s=("])
def test_a_damaged_address_is_taken_as_far_as_it_makes_sense(view: View, small: Path, state: str) -> None:
    assert "all" in view(small, state).names()


def test_the_tooltip_tells_all_about_a_frame(view: View, small: Path) -> None:
    text = view(small).hover("Gemm")
    for part in ("Gemm", "C++", "libmath.so", "total\n600 ms · 60.0%", "self\n400 ms · 40.0%"):
        assert part in text
    assert view(small).hover("main").count("app.py:3") == 1


def test_the_line_of_details_follows_the_mouse_and_the_keyboard(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.hover("idle_wait")
    assert viewer.details().startswith("idle_wait")
    viewer.page.mouse.move(600, 5)
    assert viewer.details().startswith("all")


def test_arrows_walk_through_the_frames_and_enter_zooms(view: View, small: Path) -> None:
    viewer = view(small)
    viewer.page.focus('.af-frames [tabindex="0"]')
    path = [viewer.focused()]
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        viewer.page.keyboard.press(key)
        path.append(viewer.focused())
    assert path == ["all", "main", "work", "idle_wait", "work", "Gemm", "work"]
    viewer.page.keyboard.press("Enter")
    assert viewer.bar("work")["width"] == pytest.approx(CHART_WIDTH, abs=1)
    assert viewer.focused() == "work"


def test_tab_reaches_the_frames(view: View, small: Path) -> None:
    viewer = view(small)
    for _ in range(20):
        viewer.page.keyboard.press("Tab")
        if viewer.focused() == "all":
            return
    pytest.fail("no frame took the focus")


@pytest.mark.parametrize("key", ["/", "Control+f", "Meta+f"])
def test_keys_that_search(view: View, small: Path, key: str) -> None:
    viewer = view(small)
    viewer.page.keyboard.press(key)
    viewer.page.keyboard.type("idle d/h")
    assert viewer.pattern() == "idle d/h"
    viewer.page.keyboard.press("Escape")
    assert viewer.pattern() == ""
    assert viewer.focused() == "all"


@pytest.mark.parametrize("key", ["h", "?"])
def test_help_opens_and_closes(view: View, small: Path, key: str) -> None:
    viewer = view(small)
    viewer.page.keyboard.press(key)
    assert viewer.page.locator(".af-help").is_visible()
    viewer.page.keyboard.press("Escape")
    assert not viewer.page.locator(".af-help").is_visible()


def test_copies_a_name_and_a_stack(view: View, small: Path) -> None:
    viewer = view(small, permissions=["clipboard-read", "clipboard-write"])
    viewer.hover("Gemm")
    viewer.page.keyboard.press("c")
    copied = "async (text) => await navigator.clipboard.readText() === text"
    viewer.page.wait_for_function(copied, arg="py::main;py::work;Gemm 600000000")
    viewer.page.keyboard.press("Shift+C")
    viewer.page.wait_for_function(copied, arg="Gemm")


def paper(viewer: Viewer) -> str:
    return viewer.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")


def test_dark_follows_the_system_and_the_switch(view: View, small: Path) -> None:
    light, dark = view(small), view(small, color_scheme="dark")
    assert paper(light) != paper(dark)
    assert light.fill_of("Gemm") != dark.fill_of("Gemm")
    light.page.keyboard.press("d")
    assert (paper(light), light.fill_of("Gemm")) == (paper(dark), dark.fill_of("Gemm"))
    light.button("Dark").click()
    dark.button("Dark").click()
    assert paper(light) == paper(dark) == "rgb(255, 255, 255)"


def test_the_legend_tells_shares_and_highlights(view: View, small: Path) -> None:
    viewer = view(small)
    assert viewer.chip("C++").inner_text().split() == ["C++", "60.0%"]
    assert viewer.chip("Python").inner_text().split() == ["Python", "100.0%"]
    viewer.chip("waiting").click()
    assert {bar["name"] for bar in viewer.bars() if "dim" not in bar["classes"]} == {"idle_wait"}
    assert viewer.matched() == "Highlighted 30.0%"
    viewer.chip("waiting").click()
    assert not [bar for bar in viewer.bars() if "dim" in bar["classes"]]


def test_the_legend_hides_a_kind_and_what_it_called_moves_down(view: View, small: Path) -> None:
    viewer = view(small)
    rows = len({bar["y"] for bar in viewer.bars()})
    viewer.chip("C++").click(modifiers=["Shift"])
    assert "Gemm" not in viewer.names()
    assert len({bar["y"] for bar in viewer.bars()}) == rows - 1
    assert sorted(bar["width"] / CHART_WIDTH for bar in viewer.bars() if bar["name"] == "work") == pytest.approx([0.2, 0.7], abs=0.002)
    viewer.chip("C++").click()
    assert "Gemm" in viewer.names()


def test_order_by_width_puts_the_widest_first(view: View, small: Path) -> None:
    viewer = view(small)
    assert viewer.bar("idle_wait")["x"] == pytest.approx(10, abs=1)
    viewer.page.keyboard.press("o")
    assert viewer.bar("idle_wait")["x"] == pytest.approx(10 + 0.7 * CHART_WIDTH, abs=1)


def test_inverted_puts_the_callers_at_the_top(view: View, tmp_path: Path) -> None:
    path = tmp_path / "icicle.svg"
    svg.write(trees.small(), "cpu-time", path, "Icicle", "", inverted=True)
    viewer = view(path)
    assert viewer.bar("all")["y"] < viewer.bar("main")["y"] < viewer.bar("Gemm")["y"]
    viewer.page.keyboard.press("i")
    assert viewer.bar("all")["y"] > viewer.bar("main")["y"] > viewer.bar("Gemm")["y"]


def test_it_fills_the_window_at_every_size(view: View, small: Path) -> None:
    viewer = view(small)
    for width, height in ((1900, 500), (420, 900)):
        viewer.page.set_viewport_size({"width": width, "height": height})
        viewer.page.wait_for_function(f"() => document.querySelector('.af-frames').getAttribute('width') === '{width - 20}'")
        assert viewer.bar("main")["width"] == pytest.approx(width - 20, abs=1)
        for part in (".af-search", ".af-details", ".af-legend"):
            box = viewer.page.locator(part).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width


def test_labels_fit_their_frames(view: View, tmp_path: Path) -> None:
    path = tmp_path / "training.svg"
    svg.write(trees.training(), "gpu-time", path, "Training", "")
    viewer = view(path)
    overflow = viewer.page.evaluate(
        """() => [...document.querySelectorAll(".af-frames text")].filter((label) =>
             label.getBBox().width + 4 > label.previousElementSibling.getBBox().width + 0.6).map((label) => label.textContent)"""
    )
    assert overflow == []
    assert len(viewer.labels()) > 50


def test_a_deep_recursion_scrolls(view: View, tmp_path: Path) -> None:
    path = tmp_path / "deep.svg"
    svg.write(trees.recursion(3_000), "cpu-time", path, "Deep", "")
    viewer = view(path)
    assert "main" in viewer.names()
    viewer.page.mouse.move(600, 400)
    viewer.page.mouse.wheel(0, -100_000)
    viewer.page.wait_for_function("() => !document.querySelector('[aria-level=\"2\"]')")
    assert viewer.page.locator('.af-frames [aria-level="3001"]').count() == 1
    thumb = viewer.page.locator(".af-thumb").bounding_box()
    assert all(bar["x"] + bar["width"] < thumb["x"] for bar in viewer.bars())
    assert len(viewer.bars()) < 100


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_names_stay_text(view: View, tmp_path: Path, scripts: bool) -> None:
    path = tmp_path / "hostile.svg"
    svg.write(trees.hostile(), "cpu-time", path, *trees.HOSTILE_NAMES[:2])
    viewer = view(path, java_script_enabled=scripts)
    if scripts:
        for bar in viewer.bars():
            viewer.page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + 8)
        assert viewer.search("hacked=1").startswith("Matched 3")
        assert viewer.page.evaluate("window.hacked") is None
        assert any(label.startswith("</script>") for label in viewer.labels())
        assert viewer.page.locator("h1").inner_text() == "]]>"
    assert viewer.page.locator("script").count() == 1
    assert viewer.page.locator("img").count() == 0


def test_without_scripts_the_still_picture_shows(view: View, small: Path) -> None:
    page = view(small, java_script_enabled=False).page
    texts = page.eval_on_selector_all("#aiflame-still text", "all => all.map((one) => one.textContent)")
    assert {"Small", "main", "Gemm", "idle_wait"} <= set(texts)
    assert page.locator("#aiflame-still path").count() >= 4


def test_an_old_browser_keeps_the_still_picture(view: View, small: Path) -> None:
    viewer = view(small, java_script_enabled=False)
    still = viewer.page.locator("#aiflame-still text").count()
    old = view(small, before="delete window.DecompressionStream")
    assert old.page.locator("#aiflame-still text").count() == still > 0


def test_it_works_inside_a_page(view: View, small: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f'<iframe src="{small.as_uri()}" width="800" height="400"></iframe>')
    frame = view(page, ready=False, also=[small]).page.frame_locator("iframe")
    frame.locator('[aria-label^="Gemm"]').click()
    frame.locator(".above").first.wait_for()
    assert frame.locator('[aria-label^="idle_wait"]').count() == 0


def test_a_difference_is_red_and_blue_and_the_base_can_be_seen(view: View, differential: Path) -> None:
    viewer = view(differential)
    assert viewer.names() == {"all", "main", "same", "grown", "shrunk", "added"}
    red, green, blue = rgb(viewer.fill_of("grown"))
    assert red > blue and red > green
    red, green, blue = rgb(viewer.fill_of("shrunk"))
    assert blue > red
    assert len(set(rgb(viewer.fill_of("same")))) == 1
    assert "10.0% of the base is gone" in viewer.page.inner_text(".af-note")
    tooltip = viewer.hover("grown")
    assert "300 ms → 600 ms · +100.0%" in tooltip

    viewer.page.keyboard.press("b")
    assert viewer.names() == {"all", "main", "same", "grown", "shrunk", "gone"}
    assert viewer.bar("gone")["width"] == pytest.approx(0.1 * CHART_WIDTH, abs=1)
    assert "100 ms → 0 ns · gone" in viewer.hover("gone")


def test_two_hundred_thousand_stacks_stay_quick_to_draw(view: View, tmp_path: Path) -> None:
    """However large the file, the picture drawn at once stays small; zooming brings out frames that were too narrow before."""
    path = tmp_path / "many.svg"
    svg.write(trees.many_stacks(), "cpu-time", path, "Many", "")
    viewer = view(path)
    assert viewer.page.locator(".af-frames rect").count() < 25_000
    before = viewer.names()
    for _ in range(2):
        narrow = max((bar for bar in viewer.bars() if 6 < bar["width"] < 60), key=lambda bar: bar["y"])
        viewer.page.mouse.click(narrow["x"] + narrow["width"] / 2, narrow["y"] + 8)
    assert viewer.names() - before
    viewer.page.fill(".af-search", "method_1[0-9]*$")
    viewer.page.press(".af-search", "Enter")
    assert viewer.matched().startswith("Matched")
    assert viewer.page.locator(".af-frames rect.match").count() > 0


def rgb(color: str) -> list[int]:
    return [int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
