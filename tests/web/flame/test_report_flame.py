"""The report's flame graph in a real browser: widths, screens, addresses, and pages without facts, with many, or with hostile names."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_facts import Leaf, Site, device, facts, kernel, large, process, python, stacks
from report_flame import Fingers, Flames
from report_pages import reports
from shared_pages import Pages

from aiflame.attribute.tree import Frame, Kind
from aiflame.render.colors import fill, shade_of


def test_widths_are_shares_of_the_total(flame: Flames) -> None:
    shares = flame(device()).shares()
    outer = {"all": 100, "train.py (7)": 100, "main": 85, "train": 85, "[GPU idle]": 15}
    inner = {"mlp": 40, "attn": 45, "linear": 60, "gemm": 60, "softmax": 25}
    assert shares == pytest.approx({**outer, **inner}, abs=0.2)


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


def test_a_report_without_facts_says_so(flame: Flames, pages: Pages, tmp_path: Path) -> None:
    with reports(pages, tmp_path, "canvas") as opener:
        report = opener({}, "#view=flame", picture=False)
        report.page.wait_for_selector(".flame-empty:not([hidden])")
        assert "no facts" in report.text(".flame-empty")


def test_processes_are_told_apart(flame: Flames) -> None:
    sites = [Site({"process": process(f"rank.py ({pid})"), "code": python("main")}, [Leaf({"gpu-time": 10})]) for pid in (7, 8)]
    assert flame({"facts.device": facts(sites)}).row(1) == ["rank.py (7)", "rank.py (8)"]
