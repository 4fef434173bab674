"""A picture of a flame graph, as docs/images has them: `screenshot.py FLAME.svg PICTURE.png [HEIGHT]`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 400


def main() -> None:
    svg, picture, *height = sys.argv[1:]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": int(height[0]) if height else HEIGHT})
        page.goto(Path(svg).absolute().as_uri())
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main()
