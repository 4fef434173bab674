"""The report's flame graph in a real browser: the tooltip, menu and source of a frame, and the keyboard that walks between frames."""

from __future__ import annotations

import pytest
from report_facts import device
from report_flame import Flames


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
