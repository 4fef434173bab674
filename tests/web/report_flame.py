"""An open flame graph of a report, used as a person does: with eyes, pointer and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from report_pages import PATIENCE_MS, Opener, Report

SETTLED = """() => {
  const body = document.querySelector(".flame:not([hidden])");
  const chart = body?.flame.chart;
  return chart?.model && !body.dataset.busy && body.dataset.settled && !chart.moving && chart.frame === 0 && !body.flame.settling;
}"""


@dataclass
class Flame:
    report: Report

    @property
    def page(self) -> Any:
        return self.report.page

    def settle(self) -> None:
        self.page.wait_for_timeout(40)
        self.page.wait_for_function(SETTLED, timeout=PATIENCE_MS)

    def bars(self) -> list[dict[str, Any]]:
        """Bars in sight that stand for one frame each: name, x, y, width, match, above, dim, depth, color, label."""
        self.settle()
        drawn: list[dict[str, Any]] = self.page.evaluate("document.querySelector('.flame').flame.chart.seen()")
        return [bar for bar in drawn if not bar["many"]]

    def bar(self, name: str) -> dict[str, Any]:
        """The widest of that name."""
        return max((bar for bar in self.bars() if bar["name"] == name), key=lambda bar: bar["width"])

    def names(self) -> set[str]:
        return {bar["name"] for bar in self.bars()}

    def shares(self) -> dict[str, float]:
        """Each name's share of the picture's width, in %."""
        wide = self.width()
        shares: dict[str, float] = {}
        for bar in self.bars():
            shares[bar["name"]] = round(shares.get(bar["name"], 0) + 100 * bar["width"] / wide, 1)
        return shares

    def row(self, depth: int) -> list[str]:
        """Names of a depth from left to right."""
        return [bar["name"] for bar in sorted(self.bars(), key=lambda bar: bar["x"]) if bar["depth"] == depth]

    def width(self) -> float:
        return float(self.page.evaluate("document.querySelector('.flame-stage').clientWidth"))

    def middle(self, name: str) -> tuple[float, float]:
        bar = self.bar(name)
        return bar["x"] + bar["width"] / 2, bar["y"] + 9

    def click(self, name: str, **options: Any) -> None:
        self.page.mouse.click(*self.middle(name), **options)
        self.settle()

    def hover(self, name: str) -> str:
        """The tooltip's text."""
        self.page.mouse.move(*self.middle(name))
        return self.text(".flame-tooltip")

    def choose(self, name: str, action: str) -> None:
        """From the menu of a frame."""
        self.click(name, button="right")
        self.page.click(f".flame-actions [data-action={action}]")
        self.settle()

    def view_menu(self, key: str, value: str, on: bool = True) -> None:
        self.page.click(".flame-menu-holder > button")
        self.page.set_checked(f".flame-panel input[name=flame-{key}][value='{value}']", on)
        self.page.keyboard.press("Escape")
        self.settle()

    def select(self, menu: str, value: str) -> None:
        self.page.select_option(f".flame-tools select[name={menu}]", value)
        self.settle()

    def search(self, pattern: str) -> str:
        """Types it, and returns the page's line about matches."""
        self.page.fill(".flame-search", pattern)
        self.settle()
        return self.text(".flame-matched")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def current(self) -> str:
        """The frame of the keyboard, as a screen reader has it."""
        label: str = self.page.get_attribute("#flame-item", "aria-label")
        return label

    def chips(self) -> list[str]:
        return [text.removesuffix("×").strip() for text in self.page.locator(".flame-chip").all_inner_texts()]

    def remove_chip(self, key: str) -> None:
        self.page.click(f".flame-chip[data-key={key}] button")
        self.settle()

    def kind(self, label: str) -> Any:
        return self.page.locator(f".flame-kind[data-kind='{label}']")

    def text(self, selector: str) -> str:
        return self.report.text(selector)

    def state(self) -> dict[str, str]:
        return {key: value for key, value in self.report.state().items() if key != "view"}


def flames(opener: Opener) -> Callable[..., Flame]:
    """Opens flame graphs, without motion unless it is asked for."""

    def open_flame(blocks: dict[str, bytes], state: str = "", **options: Any) -> Flame:
        given = {"reduced_motion": "reduce", **options}
        flame = Flame(opener(blocks, f"#view=flame{state and '&'}{state}", picture=False, **given))
        flame.settle()
        return flame

    return open_flame


class Fingers:
    """On the screen, as the browser's own protocol has them."""

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)

    def send(self, kind: str, *points: tuple[float, float]) -> None:
        touched = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})


Flames = Callable[..., Flame]
Opened = Iterator[Flames]
