"""The report's flame graph in a real browser: against a baseline, and a range of time against the rest of the run."""

from __future__ import annotations

import pytest
from report_facts import device, facts, small, stacks
from report_flame import Flame, Flames

from aiflame.attribute.tree import Kind
from aiflame.render.colors import diff_fill, fill, shade_of


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
        """800 before, 1000 now: unchanged frames take a smaller share, frames that are gone had a larger one."""
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
