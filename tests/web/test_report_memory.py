"""Memory in the report, in a real browser: grouped by category in the flame graph, the curve of all categories on the timeline, and the map
of segments, their blocks and holes, at several moments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_snapshots import Device, Frame, python, snapshot, written
from report_pages import Opener as PictureOpener
from report_pages import reports
from report_visits import Opener, Visit
from shared_pages import Pages

import aiflame
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.report.document import write
from aiflame.render.report.timeline_block import of_profile

MIB = 1 << 20
PARAMETERS = [python("__init__", "/x/torch/nn/modules/linear.py", 9), python("<module>", "train.py", 1)]
MAP = ".map-picture .map-canvas"
OTHER = [python("work", "train.py", 20), python("<module>", "train.py", 30)]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> OpenedProfile:
    """A snapshot without a single slice of time: 8 MiB of parameters in the first half of the run, then 24 MiB of other blocks as well."""
    device = Device(0)
    began = device.now

    def take(size: int, stack: list[Frame], at: int) -> int:
        device.now = began + at
        return device.alloc(size, stack)

    take(8 * MIB, PARAMETERS, 0)
    block = take(24 * MIB, OTHER, 50_000)
    device.now = began + 100_000
    device.free(block, OTHER)
    file = tmp_path_factory.mktemp("memory") / "snapshot.pickle"
    file.write_bytes(written(snapshot(device)))
    return aiflame.open(file).store


def test_the_flame_graph_of_memory_is_grouped_by_category(visit: Opener, profile: OpenedProfile, tmp_path: Path) -> None:
    write(profile, tmp_path / "report.html")
    seen = visit(tmp_path / "report.html")
    seen.open("#view=flame&metric=gpu-bytes&by=category")
    assert "Category of memory" in seen.texts("select[name=by] option")
    assert seen.page.input_value("select[name=by]") == "category"
    for search, share in (("^parameters$", "25.0%"), ("^other$", "75.0%")):
        seen.open(f"#view=flame&metric=gpu-bytes&by=category&search={search}")
        seen.wait(f"document.querySelector('main').innerText.includes('{share}')")


@pytest.fixture
def timeline(pages: Pages, tmp_path: Path) -> Iterator[PictureOpener]:
    with reports(pages, tmp_path, ".tl-canvas") as opener:
        yield opener


def test_the_timeline_stacks_the_curve_of_each_category(timeline: PictureOpener, profile: OpenedProfile) -> None:
    report = timeline({"timeline": of_profile(profile)}, "#view=timeline")
    drawn = report.drawn()
    title, row = drawn["rows"][:2]
    assert "memory in use" in title["text"]
    width = report.page.eval_on_selector(".tl-canvas", "canvas => canvas.clientWidth")
    early, late = (drawn["gutter"] + part * (width - drawn["gutter"]) for part in (0.25, 0.75))
    low, high = row["y"] + 40, row["y"] - 20
    paper = report.pixel(early, high)
    assert report.pixel(late, low) == report.pixel(late, high), "other blocks are three quarters of it, from the bottom"
    assert paper not in (report.pixel(late, high), report.pixel(early, low))
    assert report.pixel(late, row["y"] - 42) == report.pixel(early, low) != report.pixel(late, low), "the parameters are on top of them"
    report.move(late, row["y"])
    tip = report.page.inner_text(".tl-tip")
    assert "32 MiB" in tip
    assert "other: 24 MiB, 75.0%" in tip
    assert "parameters: 8 MiB, 25.0%" in tip


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment of 8 MiB full of parameters, and one of 2 MiB with a block of 512 KiB; at the peak another one of 4 MiB is used."""
    device = Device(0)
    device.alloc(8 * MIB, PARAMETERS)
    device.alloc(MIB // 2, OTHER)
    device.free(device.alloc(4 * MIB, OTHER), OTHER)
    folder = tmp_path_factory.mktemp("map")
    (folder / "snapshot.pickle").write_bytes(written(snapshot(device)))
    write(aiflame.open(folder / "snapshot.pickle").store, folder / "report.html")
    return folder / "report.html"


def opened(visit: Opener, mapped: Path) -> Visit:
    seen = visit(mapped, "#view=memory")
    seen.page.wait_for_selector(f"{MAP}[data-drawn]")
    return seen


def met(seen: Visit, share: float, row: int) -> str:
    """The text at a place of the picture: a share of its width, in a row of it."""
    box = seen.page.locator(MAP).bounding_box()
    seen.page.mouse.move(box["x"] + share * box["width"], box["y"] + row * 25 + 10)
    return seen.text(".map-tip")


def test_blocks_and_holes_say_who_they_are(visit: Opener, mapped: Path) -> None:
    seen = opened(visit, mapped)
    assert "14 MiB in 3 segments, 12.5 MiB of them used by blocks: 1.5 MiB are unused, the largest hole has 1.5 MiB" in seen.text(
        ".map-facts"
    )
    # The segment with a hole is first: 2 of 8 MiB, a quarter of the width.
    text = met(seen, 0.03, 0)
    assert "512 KiB, other" in text
    assert "work() (train.py:20)" in text
    assert "hole of 1.5 MiB" in met(seen, 0.2, 0)
    assert "8 MiB, parameters" in met(seen, 0.5, 1)
    assert seen.texts(".map-legend li") == ["other", "parameters", "hole"]
    assert seen.texts(".map-room .map-list tbody tr")[0].split("\t")[0].strip() == "work() (train.py:20)"


def test_a_click_lists_the_blocks_of_a_segment_and_m_shows_the_next_moment(visit: Opener, mapped: Path) -> None:
    seen = opened(visit, mapped)
    met(seen, 0.03, 0)
    seen.page.mouse.down()
    seen.page.mouse.up()
    seen.wait_for_state(of="GPU 0", segment="0")
    assert seen.texts(".map-details tbody tr")[0].split("\t")[:2] == ["+0 bytes", "512 KiB"]
    seen.press("ArrowRight")
    seen.wait_for_state(segment="1")
    assert seen.text(".map-details p") == "segment of 8 MiB (default stream): 1 block, 100.0% used, no hole"
    seen.press("m")
    seen.wait_for_state(at="end")
    seen.wait("document.querySelector('.map-facts').innerText.includes('8.5 MiB of them used')")
