"""The report's flame graph in a real browser: shapes, chips that leave frames out or merge them, groupings, and metrics."""

from __future__ import annotations

import pytest
from report_facts import Leaf, Site, device, facts, process, python, small, stacks
from report_flame import Flames

from aiflame.attribute.tree import Frame, Kind


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

    def test_shares_of_the_legend_add_up_and_turned_round_they_are_of_all_inside(self, flame: Flames) -> None:
        opened = flame(device())
        shares = opened.page.locator(".flame-kind b").all_inner_texts()
        assert sum(float(share.rstrip("%")) for share in shares) == pytest.approx(100)
        opened.view_menu("inverted", "1")
        assert "process\n100.0%" in opened.page.locator(".flame-kind").all_inner_texts()

    def test_the_legend_highlights_and_hides(self, flame: Flames) -> None:
        opened = flame(device())
        assert [text.replace("\n", " ") for text in opened.page.locator(".flame-kind").all_inner_texts()] == [
            "process", "Python", "GPU kernel 85.0%", "GPU idle 15.0%",
        ]  # fmt: skip
        opened.kind("GPU kernel").click()
        assert {bar["name"] for bar in opened.bars() if not bar["dim"]} == {"gemm", "softmax"}
        opened.kind("GPU kernel").click()
        assert not any(bar["dim"] for bar in opened.bars())
        opened.kind("Python").click(modifiers=["Shift"])
        opened.settle()
        assert "main" not in opened.names()
        assert opened.chips() == ["without all Python frames"]
