"""The report's flame graph in a real browser: search, and its matches one by one."""

from __future__ import annotations

import pytest
from report_facts import device, stacks
from report_flame import Flames

from aiflame.render.colors import SEARCH


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
