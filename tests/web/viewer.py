"""An open flame graph, looked at and used as a person would."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Viewer:
    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, state: str = "") -> None:
        if self.page.url != "about:blank":
            self.page.goto("about:blank")
        self.page.goto(self.address + state)
        self.page.wait_for_selector("#aiflame[data-ready]", state="attached", timeout=30_000)

    def bars(self) -> list[dict[str, Any]]:
        """The drawn frames: name, x, y, width and classes."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll(".af-frames rect[role=treeitem]")].map((bar) => {
              const box = bar.getBoundingClientRect();
              return {name: bar.getAttribute("aria-label").replace(/, [^,]*$/, ""), x: box.x, y: box.y, width: box.width,
                      classes: [...bar.classList], node: Number(bar.dataset.node)};
            })"""
        )

    def bar(self, name: str) -> dict[str, Any]:
        """The widest of that name."""
        return max((bar for bar in self.bars() if bar["name"] == name), key=lambda bar: bar["width"])

    def names(self) -> set[str]:
        return {bar["name"] for bar in self.bars()}

    def labels(self) -> list[str]:
        return self.page.eval_on_selector_all(".af-frames text", "all => all.map((one) => one.textContent)")

    def click(self, name: str) -> None:
        bar = self.bar(name)
        self.page.mouse.click(bar["x"] + bar["width"] / 2, bar["y"] + 8)

    def hover(self, name: str) -> str:
        """The tooltip's text."""
        bar = self.bar(name)
        self.page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + 8)
        return self.page.inner_text(".af-tooltip")

    def button(self, label: str) -> Any:
        return self.page.locator(f".af-button:text-is('{label}')")

    def chip(self, label: str) -> Any:
        return self.page.locator(".af-chip", has=self.page.locator(f"span:text-is('{label}')"))

    def pattern(self) -> str:
        return self.page.eval_on_selector(".af-search", "field => field.value")

    def search(self, pattern: str) -> str:
        """Types it, and returns the page's line about matches."""
        self.page.fill(".af-search", pattern)
        return self.matched()

    def matched(self) -> str:
        return self.page.inner_text(".af-matched")

    def details(self) -> str:
        return self.page.inner_text(".af-detail")

    def hash(self) -> str:
        return self.page.evaluate("location.hash")

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.getAttribute('aria-label')?.replace(/, [^,]*$/, '') ?? ''")

    def fill_of(self, name: str) -> str:
        node = self.bar(name)["node"]
        return self.page.eval_on_selector(f'.af-frames rect[data-node="{node}"]', "bar => getComputedStyle(bar).fill")
