"""The report's flame graph in a real browser: zoom, panning, scrolling, and the minimap."""

from __future__ import annotations

import pytest
from report_facts import device, stacks
from report_flame import Flames


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
