"""The report's flame graph in a real browser.

The small tree, 1000 ns of GPU time: train.py → main → train → mlp → linear → gemm 400; attn → linear → gemm 200, attn → softmax 250;
beside main: [GPU idle] 150.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_facts import Leaf, Site, facts, kernel, large, process, python, small
from report_flame import Fingers, Flame, Flames, Opened, flames
from report_pages import reports

from aiflame.attribute.tree import Frame, Kind
from aiflame.render.colors import SEARCH, diff_fill, fill, shade_of


@pytest.fixture
def flame(browser: Any, tmp_path: Path) -> Opened:
    with reports(browser, tmp_path, ".flame-stage canvas") as opener:
        yield flames(opener)


def device() -> dict[str, bytes]:
    return {"facts.device": facts(small())}


def stacks(values: dict[str, int], kind: Kind = Kind.PYTHON) -> bytes:
    """`a;b` → value"""
    paths = {stack: tuple(Frame(name, kind) for name in stack.split(";")) for stack in values}
    return facts([Site({"code": paths[stack]}, [Leaf({"gpu-time": value}, (), 1)]) for stack, value in values.items()])


def test_widths_are_shares_of_the_total(flame: Flames) -> None:
    shares = flame(device()).shares()
    outer = {"all": 100, "train.py (7)": 100, "main": 85, "train": 85, "[GPU idle]": 15}
    inner = {"mlp": 40, "attn": 45, "linear": 60, "gemm": 60, "softmax": 25}
    assert shares == pytest.approx({**outer, **inner}, abs=0.2)


class TestZoom:
    def test_a_click_fills_the_width_and_keeps_the_callers_as_a_strip(self, flame: Flames) -> None:
        opened = flame(device())
        opened.click("attn")
        callers = dict.fromkeys(("all", "train.py (7)", "main", "train", "attn"), 100)
        callees = {"linear": 100 * 20 / 45, "gemm": 100 * 20 / 45, "softmax": 100 * 25 / 45}
        assert opened.shares() == pytest.approx({**callers, **callees}, abs=0.2)
        assert [bar["name"] for bar in opened.bars() if bar["above"]] == ["all", "train.py (7)", "main", "train"]

    def test_it_moves_there_in_steps_and_ends_at_the_same_place(self, flame: Flames) -> None:
        opened = flame(device(), reduced_motion="no-preference")
        opened.click("attn")
        assert opened.bar("attn")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.page.evaluate("performance.getEntriesByName('aiflame:zoom').length") >= 2

    @pytest.mark.parametrize("how", ["Escape", "button", "root"])
    def test_everything_again(self, flame: Flames, how: str) -> None:
        opened = flame(device())
        opened.click("attn")
        if how == "button":
            opened.page.click("text=Show all")
        elif how == "root":
            opened.click("all")
        else:
            opened.press(how)
        assert opened.bar("main")["width"] == pytest.approx(0.85 * opened.width(), abs=1)
        assert opened.page.is_disabled("text=Show all")

    @pytest.mark.parametrize("how", ["Backspace", "button", "browser"])
    def test_undo_goes_back_one_view(self, flame: Flames, how: str) -> None:
        opened = flame(device())
        opened.click("train")
        opened.click("softmax")
        if how == "button":
            opened.page.click(".flame-tools button:text-is('Back')")
        elif how == "browser":
            opened.page.go_back()
        else:
            opened.press(how)
        opened.settle()
        assert opened.bar("train")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.bar("attn")["width"] == pytest.approx(opened.width() * 45 / 85, abs=1)

    def test_undo_never_leaves_the_page(self, flame: Flames) -> None:
        opened = flame(device())
        assert opened.page.is_disabled(".flame-tools button:text-is('Back')")
        opened.press("Backspace")
        assert "view=flame" in opened.page.url

    def test_ctrl_with_the_wheel_zooms_about_the_pointer(self, flame: Flames) -> None:
        opened = flame(device())
        before = opened.bar("mlp")
        x = before["x"] + 0.25 * before["width"]
        opened.page.mouse.move(x, before["y"] + 9)
        opened.page.keyboard.down("Control")
        opened.page.mouse.wheel(0, -300)
        opened.page.keyboard.up("Control")
        opened.settle()
        window = opened.page.evaluate("document.querySelector('.flame').flame.chart.window")
        stage = opened.page.locator(".flame-stage").bounding_box()
        part = (x - stage["x"]) / stage["width"]
        assert window["left"] + part * window["width"] == pytest.approx(1000 * part, abs=2)
        assert window["width"] == pytest.approx(1000 / 2.718, rel=0.01)
        left, right = map(float, opened.state()["at"].split("-"))
        assert right - left == pytest.approx(1 / 2.718, rel=0.01)
        opened.press("Backspace")
        assert not opened.page.evaluate("document.querySelector('.flame').flame.chart.zoomed")

    def test_a_drag_pans_a_zoomed_graph(self, flame: Flames) -> None:
        opened = flame(device(), "at=0.4-0.6")
        before = opened.page.evaluate("document.querySelector('.flame').flame.chart.window.left")
        x, y = opened.middle("main")
        opened.page.mouse.move(x, y)
        opened.page.mouse.down()
        opened.page.mouse.move(x + opened.width() / 4, y + 1, steps=4)
        opened.page.mouse.up()
        opened.settle()
        after = opened.page.evaluate("document.querySelector('.flame').flame.chart.window.left")
        assert after == pytest.approx(before - 50, abs=2)
        assert opened.state()["at"].startswith("0.35")
        assert "zoom" not in opened.state()

    def test_the_wheel_scrolls_a_tall_graph(self, flame: Flames) -> None:
        opened = flame({"facts.device": stacks({";".join(f"f{at}" for at in range(80)): 10})})
        assert "f79" not in opened.names()
        opened.page.mouse.move(*opened.middle("f5"))
        opened.page.mouse.wheel(0, -5000)
        assert "f79" in opened.names()
        assert "f5" not in opened.names()

    @pytest.mark.parametrize("depth", [3, 30, 80])
    def test_a_flame_stands_on_the_ground_while_the_minimap_comes_and_goes(self, flame: Flames, depth: int) -> None:
        stack = ";".join(f"f{at}" for at in range(depth))
        opened = flame({"facts.device": stacks({stack: 10, "other": 10})}, reduced_motion="no-preference")

        def ground() -> float:
            box = opened.page.locator(".flame-stage").bounding_box()
            return float(box["y"] + box["height"] - opened.bar("all")["y"])

        before = ground()
        opened.click("f0")
        assert opened.page.is_visible(".flame-map")
        assert ground() == pytest.approx(before, abs=1)
        opened.press("Escape")
        assert ground() == pytest.approx(before, abs=1)


class TestSearch:
    def test_matches_are_magenta_and_counted_once(self, flame: Flames) -> None:
        opened = flame(device())
        assert opened.search("^(mlp|linear|gemm)$") == "Matched 60.0% · 5 frames"
        assert {bar["name"] for bar in opened.bars() if bar["match"]} == {"mlp", "linear", "gemm"}
        x, y = opened.middle("mlp")
        stage = opened.page.locator(".flame-stage canvas").bounding_box()
        pixel = opened.report.pixel(x - stage["x"] + 60, y - stage["y"])
        assert "#" + "".join(f"{part:02x}" for part in pixel) == SEARCH["light"]

    def test_it_is_relative_to_the_zoomed_frame(self, flame: Flames) -> None:
        opened = flame(device())
        opened.click("attn")
        assert opened.search("gemm") == f"Matched {100 * 20 / 45:.1f}% · 1 frame"

    @pytest.mark.parametrize(
        ("pattern", "share"), [("kind:GPU idle", "15.0%"), ("file:model.py:11", "85.0%"), ("void soft", "25.0%"), ("GEMM", "60.0%")]
    )
    def test_it_looks_at_names_full_names_kinds_and_files(self, flame: Flames, pattern: str, share: str) -> None:
        assert flame(device()).search(pattern).startswith(f"Matched {share}")

    def test_case_counts_when_asked_to(self, flame: Flames) -> None:
        opened = flame(device(), "search=GEMM")
        opened.page.click(".flame-tools button:text-is('Aa')")
        opened.settle()
        assert opened.text(".flame-matched").startswith("Matched 0.0")

    def test_a_pattern_that_is_no_expression_is_said_and_harmless(self, flame: Flames) -> None:
        opened = flame(device())
        assert opened.search("(") == "not a regular expression"
        assert opened.search("softmax").startswith("Matched 25.0%")

    def test_next_and_previous_match(self, flame: Flames) -> None:
        opened = flame(device())
        opened.press("/")
        opened.page.keyboard.type("gemm")
        opened.press("Enter")
        assert opened.current().startswith("gemm, 200 ns")
        opened.page.click("[aria-label='Next match (n)']")
        opened.settle()
        assert opened.current().startswith("gemm, 400 ns")
        opened.press("N")
        assert opened.current().startswith("gemm, 200 ns")

    def test_a_match_too_narrow_to_see_is_zoomed_to(self, flame: Flames) -> None:
        opened = flame({"facts.device": stacks({"big": 10**9, "tiny": 1})})
        opened.search("tiny")
        opened.press("Escape", "n")
        assert opened.search("tiny").startswith("Matched")
        opened.page.keyboard.press("Enter")
        assert opened.bar("tiny")["width"] == pytest.approx(opened.width(), abs=1)

    def test_runs_of_narrow_bars_show_that_one_of_them_is_found(self, flame: Flames) -> None:
        opened = flame({"facts.device": stacks({f"f{at:05}": 1 for at in range(20_000)})})
        opened.search("^f07777$")
        seen = opened.page.evaluate("document.querySelector('.flame').flame.chart.seen().filter((bar) => bar.match)")
        assert len(seen) == 1
        assert seen[0]["x"] == pytest.approx(12 + opened.width() * 0.38885, abs=2)


class TestShape:
    def test_flame_grows_up_and_icicle_down(self, flame: Flames) -> None:
        opened = flame(device())
        assert opened.bar("gemm")["y"] < opened.bar("main")["y"] < opened.bar("all")["y"]
        opened.view_menu("dir", "down")
        assert opened.bar("gemm")["y"] > opened.bar("main")["y"] > opened.bar("all")["y"]
        opened.press("i")
        assert opened.bar("gemm")["y"] < opened.bar("all")["y"]

    def test_bottom_up_begins_with_what_ran(self, flame: Flames) -> None:
        opened = flame(device())
        opened.view_menu("inverted", "1")
        assert opened.row(1) == ["gemm", "softmax", "[GPU idle]"]
        assert opened.row(2) == ["linear", "attn", "train.py (7)"]
        assert opened.bar("gemm")["width"] == pytest.approx(0.6 * opened.width(), abs=1)

    def test_a_sandwich_has_callers_above_and_callees_below(self, flame: Flames) -> None:
        opened = flame(device())
        opened.choose("linear", "sandwich")
        middle = opened.bar("linear")
        assert middle["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.bar("gemm")["y"] > middle["y"] > opened.bar("mlp")["y"] > opened.bar("train")["y"]
        assert opened.bar("mlp")["width"] == pytest.approx(opened.width() * 4 / 6, abs=1)
        assert opened.search("gemm|attn") == "callees: Matched 100.0% · 1 frame; callers: Matched 33.3% · 1 frame"
        opened.remove_chip("sandwich")
        assert opened.row(0) == ["all"]

    @pytest.mark.parametrize(("order", "names"), [("name", ["attn", "mlp"]), ("width", ["attn", "mlp"]), ("time", ["attn", "mlp"])])
    def test_order_is_in_the_address(self, flame: Flames, order: str, names: list[str]) -> None:
        assert flame(device(), f"order={order}").row(4) == names

    def test_order_by_name_width_and_time(self, flame: Flames) -> None:
        sites = [
            Site({"code": python(name)}, [Leaf({"gpu-time": value})], first=first)
            for name, value, first in (("a", 100, 3), ("b", 300, 2), ("c", 200, 1))
        ]
        opened = flame({"facts.device": facts(sites)})
        assert opened.row(1) == ["a", "b", "c"]
        opened.view_menu("order", "width")
        assert opened.row(1) == ["b", "c", "a"]
        opened.view_menu("order", "time")
        assert opened.row(1) == ["c", "b", "a"]

    def test_recursion_collapses(self, flame: Flames) -> None:
        opened = flame({"facts.device": stacks({"main;f;f;f;leaf": 10, "main;f;f;other": 5})})
        assert len([bar for bar in opened.bars() if bar["name"] == "f"]) == 3
        opened.view_menu("recursion", "merged")
        assert opened.row(2) == ["f"]
        assert opened.row(3) == ["leaf", "other"]
        opened.remove_chip("recursion")
        assert len([bar for bar in opened.bars() if bar["name"] == "f"]) == 3

    def test_a_zoomed_frame_stays_zoomed_when_the_order_changes(self, flame: Flames) -> None:
        opened = flame(device())
        opened.click("mlp")
        before = opened.state()["zoom"]
        opened.view_menu("order", "time")
        assert opened.bar("mlp")["width"] == pytest.approx(opened.width(), abs=1)
        opened.view_menu("inverted", "1")
        assert "order" in opened.state()
        assert before


class TestChips:
    def test_focus_keeps_stacks_through_a_frame(self, flame: Flames) -> None:
        opened = flame(device())
        opened.choose("attn", "focus")
        assert opened.names() == {"all", "train.py (7)", "main", "train", "attn", "linear", "gemm", "softmax"}
        assert opened.bar("main")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.chips() == ["only through attn"]
        assert opened.state() == {"focus": "attn"}
        opened.choose("softmax", "focus")
        assert opened.state() == {"focus": "attn;softmax"}
        opened.page.click(".flame-chip:has-text('attn') button")
        opened.settle()
        assert opened.state() == {"focus": "softmax"}

    def test_hidden_frames_leave_their_children_in_their_place(self, flame: Flames) -> None:
        opened = flame(device())
        opened.choose("linear", "hide")
        assert opened.row(5) == ["gemm", "softmax", "gemm"]
        assert opened.chips() == ["without linear"]
        opened.remove_chip("hide")
        assert "linear" in opened.names()

    def test_a_hidden_kind(self, flame: Flames) -> None:
        opened = flame(device())
        opened.choose("train", "hideKind")
        assert opened.row(2) == ["gemm", "softmax", "[GPU idle]"]
        assert opened.chips() == ["without all Python frames"]
        assert opened.state() == {"hide": "kind:Python"}

    def test_merge_puts_all_of_a_name_on_one(self, flame: Flames) -> None:
        opened = flame(device())
        opened.choose("linear", "merge")
        assert opened.row(1) == ["linear"]
        assert opened.row(2) == ["gemm"]
        assert opened.bar("gemm")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.chips() == ["merged: linear"]

    def test_names_with_signs_of_their_own_come_back_from_the_address(self, flame: Flames) -> None:
        name = "f<a;b>\\ /x/"
        paths = (Frame("main", Kind.CPP), Frame(name, Kind.CPP))
        opened = flame(
            {"facts.device": facts([Site({"code": paths}, [Leaf({"gpu-time": 5})]), Site({"code": paths[:1]}, [Leaf({"gpu-time": 5})])])}
        )
        opened.choose(name, "focus")
        assert opened.chips() == [f"only through {name}"]
        assert opened.bar(name)["width"] == pytest.approx(opened.width(), abs=1)

    def test_a_view_may_focus_by_an_expression(self, flame: Flames) -> None:
        opened = flame(device(), "focus=/soft|mlp/")
        assert opened.row(4) == ["attn", "mlp"]
        assert opened.row(5) == ["softmax", "linear"]

    def test_a_range_and_steps_are_chips_that_say_what_is_divided(self, flame: Flames) -> None:
        opened = flame(device(), "range=1-1&by=family&idle=1")
        assert opened.chips() == ["time 0.001 s – 0.002 s"]
        assert "is divided" in opened.text(".flame-chips")
        assert opened.bar("[GPU idle]")["width"] == pytest.approx(opened.width() / 3, abs=1)
        opened.remove_chip("range")
        assert opened.bar("[GPU idle]")["width"] == pytest.approx(0.15 * opened.width(), abs=1)
        assert not opened.page.is_visible(".flame-chips")

    def test_steps(self, flame: Flames) -> None:
        opened = flame(device(), "steps=2-2&by=op")
        assert opened.chips() == ["step 2"]
        assert opened.bar("gemm")["width"] == pytest.approx(opened.width(), abs=1)

    def test_nothing_left_is_said(self, flame: Flames) -> None:
        assert "Remove a chip" in flame(device(), "focus=no such frame").text(".flame-empty")


class TestData:
    @pytest.mark.parametrize(
        ("by", "names"),
        [
            ("code", {"main", "mlp", "gemm"}),
            ("layer", {"Forward", "layers.0", "mlp", "aten::mm", "gemm"}),
            ("step", {"Step.1", "Step.2", "Forward", "mlp"}),
            ("region", {"main", "gemm"}),
            ("op", {"aten::mm", "aten::softmax", "gemm"}),
            ("phase", {"Forward", "aten::mm"}),
            ("family", {"gemm", "attention"}),
        ],
    )
    def test_groupings(self, flame: Flames, by: str, names: set[str]) -> None:
        opened = flame(device())
        opened.select("by", by)
        assert names <= opened.names()
        assert opened.bar("all")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.state().get("by", "code") == by

    def test_metrics_of_all_domains(self, flame: Flames) -> None:
        cpu = facts([Site({"code": python("main", "load")}, [Leaf({"cpu-time": 2_000_000})])], ("cpu-time",))
        opened = flame({"facts.device": facts(small(), ("gpu-time", "bytes")), "facts.cpu": cpu})
        options = opened.page.locator("select[name=metric] option").all_inner_texts()
        assert options == ["GPU time", "bytes copied", "CPU time"]
        opened.select("metric", "cpu-time")
        assert opened.row(2) == ["load"]
        assert "2 ms" in opened.hover("load")
        opened.press("Backspace")
        assert "gemm" in opened.names()

    def test_detail(self, flame: Flames) -> None:
        opened = flame(device())
        assert "gemm.py:41" not in opened.names()
        opened.view_menu("detail", "line")
        assert opened.bar("gemm.py:41")["width"] == pytest.approx(0.3 * opened.width(), abs=1)
        assert opened.state() == {"detail": "line"}

    def test_without_idle_time(self, flame: Flames) -> None:
        opened = flame(device())
        opened.view_menu("idle", "1", on=False)
        assert opened.bar("main")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.chips() == ["without idle time: 15.0% of all"]
        opened.remove_chip("idle")
        assert "[GPU idle]" in opened.names()

    def test_idle_time_that_would_hide_all_else_is_left_out_until_asked_for(self, flame: Flames) -> None:
        busy, idle = python("main"), (Frame("[GPU idle]", Kind.GPU_IDLE),)
        sites = [
            Site({"process": process(), "code": busy}, [Leaf({"gpu-time": 10})]),
            Site({"process": process(), "alone": idle}, [Leaf({"gpu-time": 90})]),
        ]
        opened = flame({"facts.device": facts(sites)})
        assert opened.bar("main")["width"] == pytest.approx(opened.width(), abs=1)
        assert opened.chips() == ["without idle time: 90.0% of all"]
        opened.remove_chip("idle")
        assert opened.bar("[GPU idle]")["width"] == pytest.approx(0.9 * opened.width(), abs=1)

    def test_the_legend_highlights_and_hides(self, flame: Flames) -> None:
        opened = flame(device())
        assert [text.replace("\n", " ") for text in opened.page.locator(".flame-kind").all_inner_texts()] == [
            "process 100.0%", "Python 85.0%", "GPU kernel 85.0%", "GPU idle 15.0%",
        ]  # fmt: skip
        opened.kind("GPU kernel").click()
        assert {bar["name"] for bar in opened.bars() if not bar["dim"]} == {"gemm", "softmax"}
        opened.kind("GPU kernel").click()
        assert not any(bar["dim"] for bar in opened.bars())
        opened.kind("Python").click(modifiers=["Shift"])
        opened.settle()
        assert "main" not in opened.names()
        assert opened.chips() == ["without all Python frames"]


class TestDifference:
    @pytest.fixture
    def opened(self, flame: Flames) -> Flame:
        now = stacks({"main;slower": 600, "main;same": 300, "main;added": 100})
        base = stacks({"main;slower": 300, "main;same": 300, "main;removed": 200})
        return flame({"facts.device": now, "base.device": base})

    def test_red_grew_blue_shrank(self, opened: Flame) -> None:
        colors = {bar["name"]: bar["color"] for bar in opened.bars()}
        assert colors["slower"] == diff_fill(5, "light")
        assert colors["same"] == diff_fill(0, "light")
        assert colors["added"] == diff_fill(6, "light")
        assert "removed" not in colors
        assert "300 ns → 600 ns · +100.0%" in opened.hover("slower")

    def test_what_is_gone_is_shown_by_widths_of_the_base(self, opened: Flame) -> None:
        opened.page.click("text=Show what is gone")
        colors = {bar["name"]: bar["color"] for bar in opened.bars()}
        assert colors["removed"] == diff_fill(-6, "light")
        assert opened.bar("removed")["width"] == pytest.approx(opened.width() / 4, abs=1)
        assert "gone" in opened.hover("removed")
        assert opened.chips() == ["widths of the baseline"]

    def test_the_legend_tells_changes(self, opened: Flame) -> None:
        labels = opened.page.locator(".flame-kind").all_inner_texts()
        assert [label.replace("\n", " ") for label in labels] == ["gone 25.0%", "less 0.00%", "same 30.0%", "more 60.0%", "new 10.0%"]
        opened.kind("new").click()
        assert {bar["name"] for bar in opened.bars() if not bar["dim"]} == {"added"}

    def test_the_baseline_is_scaled_to_the_same_total(self, opened: Flame) -> None:
        """800 before, 1000 now: what stayed the same takes a smaller share, what is gone was a larger one."""
        opened.view_menu("scale", "total")
        assert opened.state()["scale"] == "total"
        assert opened.chips() == ["baseline scaled to the same total: × 1.25"]
        assert "375 ns → 300 ns · −20.0%" in opened.hover("same")
        assert opened.bar("same")["color"] == diff_fill(-3, "light")
        opened.page.reload()
        opened.settle()
        assert opened.chips() == ["baseline scaled to the same total: × 1.25"]
        opened.remove_chip("scale")
        assert "300 ns → 300 ns · ±0.0%" in opened.hover("same")
        assert "scale" not in opened.state()

    def test_without_the_baseline(self, opened: Flame) -> None:
        opened.view_menu("base", "0")
        assert opened.bar("slower")["color"] == fill(Kind.PYTHON, shade_of(["slower"])[0], "light")


class TestRest:
    """small(): in bin 1 mlp's gemm ran for 300 ns (100 elsewhere) and the device was idle for 150; all else ran in other bins."""

    def test_a_range_is_compared_with_the_rest_of_the_run(self, flame: Flames) -> None:
        opened = flame({"facts.device": facts(small(), bins=3)}, "range=1-1&by=layer&idle=0")
        assert opened.bar("gemm")["color"] == fill(Kind.GPU_KERNEL, shade_of(["gemm"])[0], "light")
        opened.view_menu("against", "rest")
        assert opened.state()["against"] == "rest"
        assert opened.chips()[1] == "compared with the rest of the run, per second"
        assert "the rest → this\n275 ns → 300 ns" in opened.hover("train.py (7)")
        assert "50 ns → 300 ns · +500.0%" in opened.hover("gemm")
        opened.page.click("text=Show what is gone")
        assert opened.bar("softmax")["color"] == diff_fill(-6, "light")
        assert "widths of the rest" in opened.chips()
        opened.remove_chip("against")
        assert opened.state().keys() == {"range", "by", "idle"}

    def test_shares_of_a_range_with_those_of_the_rest(self, flame: Flames) -> None:
        opened = flame({"facts.device": facts(small(), bins=3)}, "range=1-1&by=family&idle=0&against=rest&scale=total")
        assert opened.chips()[1] == "compared with the rest of the run, scaled to the same total"
        assert "300 ns → 300 ns" in opened.hover("train.py (7)")

    def test_steps_are_compared_with_other_steps(self, flame: Flames) -> None:
        opened = flame(device(), "steps=2-2&by=family&idle=0&against=rest")
        assert opened.chips()[1] == "compared with the other steps without the first, per step"

    def test_without_a_range_there_is_no_rest(self, flame: Flames) -> None:
        opened = flame({"facts.device": facts(small(), bins=3)}, "range=1-1&against=rest")
        opened.remove_chip("range")
        assert opened.state() == {}
        opened.page.click(".flame-menu-holder > button")
        assert not opened.page.is_visible(".flame-panel input[name=flame-against]")


class TestMinimap:
    def test_it_is_there_while_a_part_is_shown(self, flame: Flames) -> None:
        opened = flame(device())
        assert not opened.page.is_visible(".flame-map")
        opened.click("mlp")
        stage = opened.page.locator(".flame-map").bounding_box()
        box = opened.page.locator(".flame-box").bounding_box()
        assert (box["x"] - stage["x"]) / stage["width"] == pytest.approx(0.45, abs=0.01)
        assert box["width"] / stage["width"] == pytest.approx(0.4, abs=0.01)

    def test_its_box_can_be_dragged(self, flame: Flames) -> None:
        opened = flame(device(), "at=0.2-0.4")
        stage = opened.page.locator(".flame-map").bounding_box()
        x, y = stage["x"] + 0.3 * stage["width"], stage["y"] + 20
        opened.page.mouse.move(x, y)
        opened.page.mouse.down()
        opened.page.mouse.move(x + 0.5 * stage["width"], y, steps=5)
        opened.page.mouse.up()
        opened.settle()
        left, right = map(float, opened.state()["at"].split("-"))
        assert (left, right) == pytest.approx((0.7, 0.9), abs=0.005)


class TestFrames:
    STACK = "train.py (7);py::main;py::train;py::attn;softmax_[G] 250"
    FULL = "void softmax<float>()"

    def test_the_tooltip_tells_all(self, flame: Flames) -> None:
        opened = flame(device())
        opened.click("attn")
        text = opened.hover("softmax")
        assert "softmax" in text
        assert "void softmax<float>()" in text
        assert "GPU kernel" in text
        assert "250 ns · 25.0% · 55.6% of the zoomed" in text
        assert "5 · 50 ns each" in text
        assert "/app/model.py:12" in opened.hover("attn")
        assert "0 ns · 0.00%" in opened.hover("attn")

    @pytest.mark.parametrize(("how", "copied"), [("c", STACK), ("copyStack", STACK), ("C", FULL), ("copyName", FULL)])
    def test_copying(self, flame: Flames, how: str, copied: str) -> None:
        opened = flame(device())
        opened.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        if len(how) == 1:
            opened.hover("softmax")
            opened.press(how)
        else:
            opened.choose("softmax", how)
        assert opened.page.evaluate("window.copied") == copied
        assert "Copied" in opened.text(".flame-detail")

    def test_copying_where_the_clipboard_is_refused(self, flame: Flames) -> None:
        opened = flame(device())
        opened.page.evaluate("""() => {
          navigator.clipboard.writeText = async () => { throw new Error("refused"); };
          document.addEventListener("copy", () => { window.copied = String(document.activeElement.value); });
        }""")
        opened.hover("softmax")
        opened.press("C")
        assert opened.page.evaluate("window.copied") == "void softmax<float>()"

    @pytest.mark.parametrize("how", ["menu", "link"])
    def test_a_kernel_leads_to_its_source(self, flame: Flames, how: str) -> None:
        opened = flame(device())
        if how == "menu":
            opened.click("softmax", button="right")
            opened.page.click("[data-action=source]")
        else:
            opened.click("softmax")
            opened.page.click(".flame-source")
        opened.page.wait_for_function("() => location.hash.includes('view=code')")
        assert opened.report.state() == {"view": "code", "kernel": "softmax"}
        opened.page.go_back()
        assert "main" in opened.names()

    def test_code_is_told_with_file_and_line_and_no_link(self, flame: Flames) -> None:
        opened = flame(device())
        opened.click("attn")
        assert opened.text(".flame-source") == "model.py:12"
        assert opened.page.get_attribute(".flame-source", "href") is None

    def test_bottom_up_a_caller_does_not_lead_to_the_kernel_above_it(self, flame: Flames) -> None:
        opened = flame(device(), "inverted=1")
        opened.hover("gemm")
        assert opened.page.get_attribute(".flame-source", "href").endswith("kernel=gemm")
        opened.hover("train")
        assert opened.page.get_attribute(".flame-source", "href") is None

    def test_search_of_a_name_from_the_menu(self, flame: Flames) -> None:
        opened = flame(device())
        opened.choose("[GPU idle]", "find")
        assert opened.text(".flame-matched") == "Matched 15.0% · 1 frame"


class TestKeyboard:
    def test_arrows_walk_and_enter_zooms(self, flame: Flames) -> None:
        opened = flame(device())
        opened.page.focus(".flame-stage")
        opened.press("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
        assert opened.current() == "attn, 450 ns, 45.0%, depth 4"
        opened.press("ArrowRight")
        assert opened.current() == "mlp, 400 ns, 40.0%, depth 4"
        opened.press("ArrowDown")
        assert opened.current().startswith("train,")
        opened.press("ArrowUp", "ArrowLeft", "Enter")
        assert opened.bar("attn")["width"] == pytest.approx(opened.width(), abs=1)
        opened.press("Escape")
        assert opened.bar("attn")["width"] == pytest.approx(0.45 * opened.width(), abs=1)

    def test_a_screen_reader_has_a_tree_and_hears_each_frame(self, flame: Flames) -> None:
        opened = flame(device())
        opened.page.focus(".flame-stage")
        opened.press("ArrowUp", "ArrowUp")
        assert opened.page.get_attribute(".flame-stage", "role") == "tree"
        assert opened.page.get_attribute(".flame-stage", "aria-activedescendant") == "flame-item"
        item = opened.page.locator("#flame-item")
        assert (item.get_attribute("role"), item.get_attribute("aria-level"), item.get_attribute("aria-expanded")) == (
            "treeitem",
            "3",
            "true",
        )
        assert opened.report.said() == "main, 850 ns, 85.0%, depth 2"

    def test_the_menu_by_keys(self, flame: Flames) -> None:
        opened = flame(device())
        opened.page.focus(".flame-stage")
        opened.press("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
        opened.press("m", "ArrowDown", "Enter")
        assert opened.state() == {"focus": "attn"}
        opened.press("m", "Escape")
        assert not opened.page.is_visible(".flame-actions")
        assert opened.page.evaluate("document.activeElement.className") == "flame-stage"

    def test_keys_of_transforms(self, flame: Flames) -> None:
        opened = flame(device())
        opened.hover("linear")
        opened.press("x")
        assert opened.state() == {"hide": "linear"}
        opened.press("b", "o")
        assert opened.state() == {"hide": "linear", "inverted": "1", "order": "width"}

    def test_letters_in_the_search_field_are_text(self, flame: Flames) -> None:
        opened = flame(device())
        opened.press("/")
        opened.page.keyboard.type("stfx")
        assert opened.page.input_value(".flame-search") == "stfx"
        assert opened.state() == {"search": "stfx"}


class TestAddress:
    STATE = (
        "by=layer&order=width&dir=down&recursion=merged&detail=line&idle=0&focus=Forward&hide=kind:op&range=0-2&search=gemm&case=1"
        "&lit=GPU+kernel"
    )

    def test_all_that_is_chosen_comes_back_from_the_address(self, flame: Flames) -> None:
        opened = flame(device(), self.STATE)
        first = opened.bars()
        opened.click("mlp")
        address = opened.page.url
        zoomed = opened.bars()
        again = flame(device(), address.split("#view=flame&")[1])
        assert again.bars() == zoomed
        assert again.chips() == [
            "only through Forward",
            "without all op frames",
            "time 0.000 s – 0.003 s",
            "recursion collapsed",
            "without idle time: 15.0% of all",
        ]
        again.press("Escape")
        assert again.bars() == first

    def test_a_zoom_by_hand_comes_back(self, flame: Flames) -> None:
        opened = flame(device(), "at=0.25-0.5")
        assert opened.page.evaluate("document.querySelector('.flame').flame.chart.window") == {"left": 250, "width": 250}

    def test_nonsense_is_harmless(self, flame: Flames) -> None:
        opened = flame(device(), "zoom=9999&at=x&by=nothing&metric=none&order=up&focus=/(/&lit=%00")
        assert opened.page.evaluate("document.querySelector('.flame').flame.model.count") >= 1


class TestScreen:
    def test_dark(self, flame: Flames) -> None:
        opened = flame(device(), color_scheme="dark")
        assert opened.bar("softmax")["color"] == fill(Kind.GPU_KERNEL, shade_of(["softmax"])[0], "dark")
        opened.page.click("#theme")
        assert opened.bar("softmax")["color"] == fill(Kind.GPU_KERNEL, shade_of(["softmax"])[0], "light")

    def test_a_resized_window_keeps_shares(self, flame: Flames) -> None:
        opened = flame(device())
        opened.page.set_viewport_size({"width": 700, "height": 500})
        opened.settle()
        assert opened.width() < 700
        assert opened.bar("attn")["width"] == pytest.approx(0.45 * opened.width(), abs=1)
        assert opened.bar("all")["y"] < 500

    def test_it_is_sharp_on_fine_screens(self, flame: Flames) -> None:
        opened = flame(device(), device_scale_factor=2)
        stage = opened.page.locator(".flame-stage").bounding_box()
        assert opened.page.evaluate("document.querySelector('.flame-stage canvas').width") == pytest.approx(2 * stage["width"], abs=2)

    def test_labels_are_cut_and_bars_are_tall_enough(self, flame: Flames) -> None:
        opened = flame({"facts.device": stacks({"main;" + "long_name_" * 30: 50, "main;x": 50, "main;tiny": 1})})
        assert opened.bar("long_name_" * 30)["label"].endswith("…")
        assert opened.bar("x")["label"] == "x"
        assert opened.bar("tiny")["label"] == ""
        assert opened.bar("all")["y"] - opened.bar("main")["y"] >= 17

    def test_fingers_tap_pinch_and_hold(self, flame: Flames) -> None:
        opened = flame(device(), has_touch=True)
        x, y = opened.middle("attn")
        opened.page.touchscreen.tap(x, y)
        opened.settle()
        assert opened.bar("attn")["width"] == pytest.approx(opened.width(), abs=1)
        opened.press("Escape")
        finger = Fingers(opened.page)
        finger.send("touchStart", (500, 600))
        finger.send("touchStart", (500, 600), (700, 600))
        finger.send("touchMove", (450, 600), (750, 600))
        finger.send("touchMove", (400, 600), (800, 600))
        finger.send("touchEnd")
        opened.settle()
        assert opened.page.evaluate("document.querySelector('.flame').flame.chart.window.width") == pytest.approx(500, rel=0.02)
        opened.press("Escape")
        finger.send("touchStart", opened.middle("softmax"))
        opened.page.wait_for_selector(".flame-actions:not([hidden])")
        finger.send("touchEnd")
        assert opened.text(".flame-actions strong") == "softmax"


def test_hostile_names_are_text(flame: Flames) -> None:
    names = ["</script><script>window.bad = 1</script>", "<img src=x onerror=window.bad=1>", "\u202eright to left", "x" * 100_000]
    sites = [
        Site({"code": (Frame(name, Kind.PYTHON, name, 3, name, name),), "kernel": kernel(name)}, [Leaf({"gpu-time": 10})]) for name in names
    ]
    opened = flame({"facts.device": facts(sites)})
    for bar in [bar for bar in opened.bars() if bar["depth"] == 1]:
        opened.page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + 9)
        opened.page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + 9, button="right")
        opened.page.click("[data-action=focus]")
        opened.settle()
        opened.press("Backspace")
    assert opened.page.evaluate("window.bad") is None


def test_a_large_graph_has_no_element_for_each_node_and_tells_how_long_it_took(flame: Flames) -> None:
    opened = flame({"facts.device": large(100_000)})
    assert opened.page.evaluate("document.querySelector('.flame').flame.model.count") > 90_000
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 500
    assert int(opened.page.evaluate("document.documentElement.dataset.firstPaint")) > 0
    opened.search("function_7")
    assert opened.page.evaluate("performance.getEntriesByName('aiflame:search').length") >= 1
    assert len(opened.page.evaluate("document.querySelector('.flame').flame.chart.seen()")) < 33 * 1200


def test_a_report_without_facts_says_so(flame: Flames, browser: Any, tmp_path: Path) -> None:
    with reports(browser, tmp_path, "canvas") as opener:
        report = opener({}, "#view=flame", picture=False)
        report.page.wait_for_selector(".flame-empty:not([hidden])")
        assert "no facts" in report.text(".flame-empty")


def test_processes_are_told_apart(flame: Flames) -> None:
    sites = [Site({"process": process(f"rank.py ({pid})"), "code": python("main")}, [Leaf({"gpu-time": 10})]) for pid in (7, 8)]
    assert flame({"facts.device": facts(sites)}).row(1) == ["rank.py (7)", "rank.py (8)"]
