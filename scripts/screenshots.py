"""The pictures of docs/images/report: `screenshots.py [--profile PROFILE] [--only NAME]`.

Without a profile, of the prepared slow program (tests/unit/builders/slow_layer.py); with one, of its report. Pictures are
PNGs of 256 colours.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import sync_playwright

import aiflame
from aiflame.render.report.document import write

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "builders"))
from slow_layer import KERNEL, LINE, SLOW, SOURCE, USUAL, profile  # isort: skip  # noqa: E402

WIDTH, HEIGHT = 1280, 800
FOLDER = ROOT / "docs" / "images" / "report"
CALM_MS = 900
ALIKE = 4
"""Low bits of a channel that may differ in colours that are much alike."""


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    address: str
    act: Callable[[Any], None] = lambda page: None
    height: int = HEIGHT
    scheme: str = "light"


def _zoomed(page: Any) -> None:
    page.evaluate(f"""() => {{
      const {{ flame }} = document.querySelector(".flame"), {{ model }} = flame;
      const layers = [...Array(model.count).keys()].filter((node) => model.name(node) === "layers.{SLOW}");
      flame.zoomTo(layers.reduce((best, node) => (model.width[node] > model.width[best] ? node : best)));
    }}""")
    page.wait_for_timeout(CALM_MS)


PICTURES = (
    Picture("overview", ""),
    Picture("flame", "#view=flame"),
    Picture("flame-search", "#view=flame&search=attention"),
    Picture("flame-layer", "#view=flame&by=layer", _zoomed, 460),
    Picture("sandwich", f"#view=flame&sandwich={USUAL}"),
    Picture("scope", "#view=scope"),
    Picture("scope-steps", "#view=scope&by=step"),
    Picture("timeline", "#view=timeline"),
    Picture("code", f"#view=code&kernel={KERNEL}&place={SOURCE}:{LINE}"),
    Picture("tables", "#view=tables&table=layers&filter=%5Elayers%5C.%5C*%5C.attn%28%5C.%7C%24%29"),
    Picture("dark", "", scheme="dark"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--only", help="name of one picture")
    parser.add_argument("--to", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        shown = aiflame.open(options.profile).store if options.profile else profile(Path(folder))
        file = Path(folder) / "report.html"
        write(shown, file, title="train.aiflame")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in PICTURES:
            if options.only in (None, picture.name):
                image = quantized(taken(browser, file, picture))
                (options.to / f"{picture.name}.png").write_bytes(image)
                print(f"{picture.name:14} {len(image) / 1000:6.1f} kB")
        browser.close()


def taken(browser: Any, file: Path, picture: Picture) -> NDArray[np.uint8]:
    page = browser.new_page(viewport={"width": WIDTH, "height": picture.height}, color_scheme=picture.scheme)
    page.goto(file.as_uri() + picture.address)
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(CALM_MS)
    picture.act(page)
    page.wait_for_timeout(CALM_MS)
    pixels = decoded(page.screenshot())
    page.close()
    return pixels


def decoded(png: bytes) -> NDArray[np.uint8]:
    """Height × width × (red, green, blue) of a PNG as Chromium writes it: 8 bits a channel, not interlaced."""
    at, data, wide, tall, channels = 8, b"", 0, 0, 3
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            wide, tall, _, color = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[color]
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(tall, 1 + wide * channels)
    above = np.zeros((wide, channels), dtype=np.uint8)
    pixels = np.empty((tall, wide, channels), dtype=np.uint8)
    for number, row in enumerate(rows):
        above = pixels[number] = _unfiltered(int(row[0]), row[1:].reshape(wide, channels), above)
    return pixels[:, :, :3]


def _unfiltered(filtered: int, row: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if filtered == 0:
        return row
    if filtered == 1:
        return np.cumsum(row, axis=0, dtype=np.uint8)
    if filtered == 2:
        return row + above
    pixels = np.empty_like(row)
    before, corner = [0] * row.shape[1], [0] * row.shape[1]
    upper = above.tolist()
    for place, values in enumerate(row.tolist()):
        over = upper[place]
        if filtered == 3:
            now = [(value + (left + up) // 2) & 255 for value, left, up in zip(values, before, over, strict=True)]
        else:
            now = [(value + _paeth(left, up, old)) & 255 for value, left, up, old in zip(values, before, over, corner, strict=True)]
        pixels[place] = now
        before, corner = now, over
    return pixels


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))


def quantized(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG with a palette: the 256 most frequent colours, one of those that are much alike; each other becomes the nearest."""
    tall, wide, _ = pixels.shape
    packed = pixels.reshape(-1, 3).astype(np.int64) @ np.array([65536, 256, 1])
    colors, which, count = np.unique(packed, return_inverse=True, return_counts=True)
    split = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1)
    order = np.argsort(-count, kind="stable")
    _, first, alike = np.unique((split >> ALIKE)[order] @ np.array([65536, 256, 1]), return_index=True, return_inverse=True)
    summed = np.bincount(alike.reshape(-1), count[order])
    kept = np.sort(order[first[np.argsort(-summed)[:256]]])
    nearest = np.empty(len(colors), dtype=np.uint8)
    for begin in range(0, len(colors), 4096):
        part = split[begin : begin + 4096, None, :] - split[kept][None, :, :]
        nearest[begin : begin + 4096] = (part**2).sum(axis=2).argmin(axis=1)
    rows = nearest[which.reshape(-1)].reshape(tall, wide)
    data = zlib.compress(np.concatenate([np.zeros((tall, 1), dtype=np.uint8), rows], axis=1).tobytes(), 9)
    palette = split[kept].astype(np.uint8).tobytes()
    parts = [(b"IHDR", struct.pack(">IIBBBBB", wide, tall, 8, 3, 0, 0, 0)), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


if __name__ == "__main__":
    main()
