"""The SVG flame graph coloured by how near kernels come to the limits of their device, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from calling import run_aiflame
from limited_training import ADD, GEMM, NORM, training
from viewer import Viewer

View = Callable[..., Viewer]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    profile = training().profile(folder)
    outcome = run_aiflame("flame", str(profile.path), "--by", "layer", "--color", "limit", "-o", str(folder / "l.svg"))
    assert outcome.status == 0, outcome.err
    return folder / "l.svg"


def test_frames_have_the_class_of_their_share(view: View, drawn: Path) -> None:
    viewer = view(drawn)
    for name, number in ((GEMM, 3), (ADD, 4), (NORM, 0), ("norm", 0), ("mlp", 3)):
        assert f"s{number}" in viewer.bar(name)["classes"], name


def test_a_frame_says_its_limit(view: View, drawn: Path) -> None:
    viewer = view(drawn)
    viewer.click("norm")
    assert "15% of the memory's limit; could win 595 µs" in viewer.page.inner_text(".af-details")


def test_the_legend_highlights_and_hides_nothing(view: View, drawn: Path) -> None:
    viewer = view(drawn)
    chips = [text.split("\n") for text in viewer.page.locator(".af-chip").all_inner_texts()]
    assert chips[0] == ["below 20%", "6.7%"]
    assert chips[-1] == ["no limit known", "0.00%"]
    before = viewer.names()
    viewer.page.locator(".af-chip").first.click(modifiers=["Shift"])
    assert viewer.names() == before
    viewer.page.locator(".af-chip").first.click()
    assert "dim" in viewer.bar(GEMM)["classes"]
    assert "dim" not in viewer.bar(NORM)["classes"]


def test_the_still_picture_has_the_scale(drawn: Path) -> None:
    still = drawn.read_text(encoding="utf-8").partition('<g id="aiflame-still">')[2].partition("</g>\n<metadata")[0]
    for text in ("below 20% 6.7%", "60 to 80% 66.7%", "80% or more 26.7%", "colours: share of the device&#x27;s limit"):
        assert text in still, text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--metric", "dram-bytes"), "has no limits of bytes read from and written to the GPU's memory"),
        (("--baseline", "{profile}"), "two profiles are compared"),
    ],
)
def test_what_has_no_limits_is_refused(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    profile = str(training().profile(tmp_path).path)
    given = [option.format(profile=profile) for option in options]
    refused = run_aiflame("flame", profile, "--color", "limit", "-o", str(tmp_path / "l.svg"), *given)
    assert refused.status == 1
    assert why in refused.err
    assert not (tmp_path / "l.svg").exists()
