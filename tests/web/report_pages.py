"""An open report, and the ways in which a person uses the pictures in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from shared_pages import Pages

from aiflame.render.report.page import page as report_page

PATIENCE_MS = 20_000
Blocks = Mapping[str, bytes]
Opener = Callable[..., "Report"]


@dataclass
class Report:
    page: Any
    address: str
    canvas: str
    """Selector of the picture that the test is about."""
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, state: str) -> None:
        if self.page.url != "about:blank":
            self.page.goto("about:blank")
        self.page.goto(self.address + state)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=PATIENCE_MS)

    def wait_for_picture(self) -> None:
        self.page.wait_for_selector(f"{self.canvas}[data-drawn]", timeout=PATIENCE_MS)
        self.settle()

    def settle(self) -> None:
        """Waits until the picture no longer changes. A busy machine's browser may draw long after it was asked to."""
        look = """canvas => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
          const { width, height } = canvas;
          const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
          let sum = 0;
          for (const pixel of pixels) sum = (Math.imul(sum, 31) + pixel) | 0;
          resolve(canvas.dataset.drawn + location.hash + sum);
        })))"""
        before = None
        for _ in range(100):
            self.page.wait_for_timeout(60)
            now = self.page.eval_on_selector(self.canvas, look)
            if now == before and not self.page.locator("[aria-busy=true]").count():
                return
            before = now
        raise AssertionError("the picture never comes to rest")

    def drawn(self) -> dict[str, Any]:
        picture: dict[str, Any] = json.loads(self.page.eval_on_selector(self.canvas, "canvas => canvas.dataset.drawn"))
        return picture

    def state(self) -> dict[str, str]:
        """The view's state in the address."""
        return dict(parse_qsl(self.page.evaluate("location.hash")[1:]))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A place on the canvas as one on the page."""
        box = self.page.locator(self.canvas).bounding_box()
        return box["x"] + x, box["y"] + y

    def move(self, x: float, y: float) -> None:
        self.page.mouse.move(*self.at(x, y))

    def click(self, x: float, y: float) -> None:
        self.page.mouse.click(*self.at(x, y))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.move(*start)
        self.page.mouse.down()
        self.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        self.move(*end)
        self.page.mouse.up()
        self.settle()

    def wheel(self, x: float, y: float, along: float) -> None:
        self.move(x, y)
        self.page.mouse.wheel(0, along)
        self.page.wait_for_timeout(50)
        self.settle()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def pixel(self, x: float, y: float) -> tuple[int, int, int]:
        script = """(canvas, [x, y]) => {
          const ratio = canvas.width / canvas.clientWidth;
          const copy = document.createElement("canvas");
          const context = copy.getContext("2d");
          context.drawImage(canvas, -Math.round(x * ratio), -Math.round(y * ratio));
          return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
        }"""
        red, green, blue = self.page.eval_on_selector(self.canvas, script, [x, y])
        return red, green, blue

    def text(self, selector: str) -> str:
        text: str = self.page.inner_text(selector)
        return text

    def said(self) -> str:
        """To screen readers."""
        announcement: str = self.page.text_content("#spoken")
        return announcement


@contextmanager
def reports(pages: Pages, folder: Path, canvas: str) -> Iterator[Opener]:
    """Opens pages with blocks; fails the test if one ever reports an error or asks for anything but its own file."""
    opened: list[Report] = []

    def open_blocks(blocks: Blocks, state: str, *, picture: bool = True, **options: Any) -> Report:
        file = folder / f"report{len(opened)}.html"
        file.write_text("".join(report_page("train.py", {"blocks": list(blocks)}, blocks.items())), encoding="utf-8")
        one = pages.open(PATIENCE_MS, **{"viewport": {"width": 1200, "height": 760}, "color_scheme": "light", **options})
        report = Report(one, file.as_uri(), canvas)
        report.page.on("console", lambda message: report.errors.append(message.text))
        report.page.on("pageerror", lambda error: report.errors.append(str(error)))
        report.page.on("request", lambda request: report.requests.append(request.url.split("#")[0]))
        opened.append(report)
        report.open(state)
        if picture:
            report.wait_for_picture()
        return report

    yield open_blocks
    for report in opened:
        pages.close(report.page)
        assert report.errors == []
        assert {url for url in report.requests if not url.startswith("blob:")} <= {"about:blank", report.address}
