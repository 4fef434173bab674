"""The report's roofline in a real browser: points against the peaks, their facts and their links, and the honest empty page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from limited_training import ADD, GEMM, NORM, training
from report_visits import Opener, Visit

from aiflame.render.report.document import write


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    write(training().profile(folder), folder / "r.html")
    return folder / "r.html"


@pytest.fixture
def page(visit: Opener, written: Path) -> Callable[..., Visit]:
    def opened(state: str = "#view=limits", **options: object) -> Visit:
        seen = visit(written, state, **options)
        seen.page.wait_for_selector(".limits svg[data-drawn]")
        return seen

    return opened


def place(seen: Visit, name: str) -> tuple[float, float]:
    """Of a point's centre, in the picture."""
    circle = seen.page.locator(f'.limit-point[data-name="{name}"] circle')
    return float(circle.get_attribute("cx")), float(circle.get_attribute("cy"))


def test_points_lie_below_the_peaks_by_what_they_reach(page: Callable[..., Visit]) -> None:
    seen = page()
    assert seen.page.locator(".limit-point").count() == 3
    labels = seen.page.locator(".limit-peak").all_text_contents()
    assert labels == ["memory 4.8 TB/s", "tensor cores 989.5 TFLOP/s in bf16", "memory 4.8 TB/s"]
    (_, add), (_, norm) = place(seen, ADD), place(seen, NORM)
    roofs = seen.page.eval_on_selector_all(".limit-roof", "all => all.map((one) => one.getAttribute('d').match(/[\\d.]+/g).map(Number))")
    bandwidth, roof = roofs[0][1], roofs[1]
    assert bandwidth < add < norm
    x, y = place(seen, GEMM)
    assert x > roof[2], "three times as much work of tensor cores as of memory: right of the ridge"
    assert y > roof[3]
    # Both scales are logarithmic: 90% of the bandwidth is 0.046 powers of ten below it, 15% are 0.824.
    assert (norm - bandwidth) / (add - bandwidth) == pytest.approx(0.8239 / 0.0458, rel=0.05)


def test_a_point_tells_what_it_reaches_and_leads_to_its_source(page: Callable[..., Visit]) -> None:
    seen = page()
    seen.page.hover(f'.limit-point[data-name="{ADD}"]')
    facts = seen.text(".limit-tip")
    for text in (ADD, "2.8 ms, 26.7%", "4.32 TB/s, 90.0% of its peak", "90%", "the device's memory", "280 µs"):
        assert text in facts, (text, facts)
    seen.click(f'.limit-point[data-name="{ADD}"]')
    seen.wait("document.querySelector('.view:not([hidden])').dataset.of !== 'limits'")
    assert seen.view() in ("code", "flame")
    assert ADD in str(seen.state())


def test_a_point_can_be_reached_with_the_keyboard(page: Callable[..., Visit]) -> None:
    seen = page()
    seen.page.focus(f'.limit-point[data-name="{GEMM}"]')
    assert "75.0% of their full rate" in seen.text(".limit-tip")
    seen.press("Enter")
    seen.wait("document.querySelector('.view:not([hidden])').dataset.of !== 'limits'")


def test_layers_are_points_too_and_the_list_has_the_most_to_win_first(page: Callable[..., Visit]) -> None:
    seen = page()
    assert [text.split("\t")[0].strip() for text in seen.texts(".limit-list tbody tr")] == [GEMM, NORM, ADD]
    seen.press("g")
    seen.wait("document.querySelector('.limits svg').dataset.drawn === 'layers'")
    assert seen.state()["of"] == "layers"
    assert seen.page.locator(".limit-point").count() == 2
    rows = seen.texts(".limit-list tbody tr")
    assert "mlp" in rows[0] and "79%" in rows[0]
    seen.click('.limit-list a:text("mlp")')
    assert seen.view() == "flame"


def test_the_head_says_what_was_used_of_the_device_and_the_foot_whose_figures(page: Callable[..., Visit]) -> None:
    seen = page()
    # Seven steps of 4 ms, of which the last ends with its work: 25.5 ms.
    assert f"tensor cores worked at {100 * 7 * 0.75 / 25.5:.1f}% of their rate" in seen.text(".limit-used")
    assert "vendor's figures: NVIDIA H200 Tensor Core GPU data sheet" in seen.text(".limit-peaks")


def test_the_other_scope_has_its_own_points(page: Callable[..., Visit]) -> None:
    seen = page()
    assert "2.8 ms" in seen.texts(".limit-list tbody tr")[2]
    seen.press("w")
    seen.wait("document.querySelector('.limit-list tbody')?.innerText.includes('3.2 ms')")
    assert "the run" in seen.text(".limit-used")


def test_pictures_stand_below_each_other_on_a_narrow_page(page: Callable[..., Visit]) -> None:
    seen = page(viewport={"width": 420, "height": 900})
    assert seen.page.evaluate("document.querySelector('.limits').scrollWidth <= innerWidth")
    assert place(seen, GEMM)[1] > 440


def test_without_counters_the_page_says_how_to_record_them(visit: Opener, tmp_path: Path) -> None:
    write(training(counters=False).profile(tmp_path), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=limits")
    seen.wait("document.querySelector('.limits .note') !== null")
    assert "record with --gpu-counters auto" in seen.text(".limits .note")
    assert seen.page.locator(".limits svg").count() == 0


def test_a_device_without_known_peaks_is_named(visit: Opener, tmp_path: Path) -> None:
    story = training()
    for row in [*story.kernels, *story.tables["gpu_counters"]]:
        row["device"] = "Other 9000"
    write(story.profile(tmp_path), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=limits")
    seen.wait("document.querySelector('.limits .note') !== null")
    assert "peaks of Other 9000 are not known" in seen.text(".limits .note")
