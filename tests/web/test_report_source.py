"""The source of a CPU program in a real browser: its files, lines with bars, the hottest, and the way from the flame graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from called_lines import LIBRARY, PROGRAM
from called_lines import profile as called
from report_visits import Opener, Visit

from aiflame.render.report.document import write

PAGE = ".view[data-of=source]"
LINES = ["import work", "", "for x in all:", "", "f(x)", "", "", "def f(x):", "  loop(x)", "  return work.one(x)"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text of the program is in the profile, that of the C library is not."""
    folder = tmp_path_factory.mktemp("source")
    write(called(folder, sources=[{"path": PROGRAM, "text": "\n".join([*LINES, ""])}]), folder / "r.html")
    return folder / "r.html"


def rows(visit: Visit) -> list[list[str]]:
    """Number, own share, share with callees, text of each line that has a share."""
    visit.wait(f"document.querySelectorAll('{PAGE} .line').length > 0")
    lines: list[list[str]] = visit.page.eval_on_selector_all(
        f"{PAGE} .line",
        "lines => lines.map((line) => ['.line-name', '.share', '.inlined', 'code'].map((part) => line.querySelector(part).textContent))",
    )
    return [row for row in lines if row[1] or row[2]]


def test_a_cpu_program_has_source_in_place_of_sass(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=overview")
    assert [name.strip() for name in seen.texts("nav a")].count("Source") == 1
    assert "Source and SASS" not in seen.texts("nav a")
    seen.page.keyboard.press("5")
    assert rows(seen) == [
        ["3", "20.0%", "20.0%", "for x in all:"],
        ["5", "", "80.0%", "f(x)"],
        ["9", "30.0%", "30.0%", "  loop(x)"],
        ["10", "10.0%", "50.0%", "  return work.one(x)"],
    ]


def test_bars_show_a_lines_own_time_within_that_of_its_callees(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=source")
    rows(seen)
    bars = seen.page.eval_on_selector_all(
        f"{PAGE} .line .timed", "all => all.map((one) => [...one.querySelectorAll('i')].map((part) => [part.className, part.style.width]))"
    )
    assert [bar for bar in bars if bar] == [
        [["timed-total", "25%"], ["timed-self", "25%"]],
        [["timed-total", "100%"], ["timed-self", "0%"]],
        [["timed-total", "37.5%"], ["timed-self", "37.5%"]],
        [["timed-total", "62.5%"], ["timed-self", "12.5%"]],
    ]


def test_the_programs_own_files_are_listed_before_libraries(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=source")
    rows(seen)
    assert seen.texts(f"{PAGE} .kernel-names p") == ["The program's own, with callees", "Packages, their own lines"]
    assert [" ".join(text.split()) for text in seen.texts(f"{PAGE} .kernel-name")] == ["prog.py 100.0%", "work.c libwork.so 40.0%"]
    assert seen.texts(f"{PAGE} .source-function .bar-name") == ["f", "main"]


def test_keys_go_to_the_hottest_and_the_address_keeps_the_line(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=source")
    rows(seen)
    seen.page.keyboard.press("n")
    assert seen.text(f"{PAGE} .line.cursor .line-name") == "9"
    assert "place=%2Fapp%2Fprog.py%3A9" in seen.page.url
    assert seen.text(f"{PAGE} .source-chosen span") == "line 9 in f: 30 ms (30.0%) itself, 30 ms (30.0%) with callees"
    seen.page.keyboard.press("n")
    assert seen.text(f"{PAGE} .line.cursor .line-name") == "3"
    seen.page.keyboard.press("Escape")
    assert seen.page.locator(f"{PAGE} .source-chosen").is_hidden()


def test_a_file_without_a_text_shows_its_lines(visit: Opener, program: Path) -> None:
    seen = visit(program, f"#view=source&file={LIBRARY}")
    assert rows(seen) == [["30", "40.0%", "40.0%", "(its text is not in the profile)"]]
    assert "--source-path" in seen.text(f"{PAGE} .missing")


def test_a_frame_of_the_flame_graph_leads_to_its_line(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=flame&search=^f$")
    seen.wait("document.querySelector('.flame-matched').textContent.includes('Matched')")
    seen.page.focus(".flame-stage")
    seen.page.keyboard.press("n")
    seen.page.click(".flame-source")
    rows(seen)
    assert seen.text(f"{PAGE} .line.cursor code") == "def f(x):"


def test_a_file_that_took_no_time_is_said_to_have_none(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=source&file=/app/other.py")
    seen.wait(f"document.querySelector('{PAGE} .note') !== null")
    assert "/app/other.py" in seen.text(f"{PAGE} .note")


def test_a_key_shows_the_programs_own_code_alone(visit: Opener, program: Path) -> None:
    """The C library folds into `f`, and the same key brings it back."""
    seen = visit(program, "#view=flame")
    names = (
        "document.querySelector('.flame')?.flame.model && [...document.querySelector('.flame').flame.chart.seen()].map((bar) => bar.name)"
    )
    seen.wait(f"({names} || []).includes('work')")
    seen.page.keyboard.press("p")
    seen.wait(f"({names}).includes('[libwork]')")
    assert "work" not in seen.page.evaluate(names)
    assert {"main", "f"} <= set(seen.page.evaluate(names))
    assert seen.texts(".flame-chip .flame-says") == ["my code only"]
    assert "mine=1" in seen.page.url
    seen.page.keyboard.press("p")
    seen.wait(f"({names}).includes('work')")


def test_the_rows_of_lines_lead_to_the_source(visit: Opener, program: Path) -> None:
    seen = visit(program, "#view=tables&table=lines")
    seen.wait("document.querySelectorAll('.view[data-of=tables] a[href]').length > 0")
    links = seen.page.eval_on_selector_all(".view[data-of=tables] a[href]", "all => all.map((one) => one.getAttribute('href'))")
    assert any(link.startswith("#view=source") and "prog.py%3A9" in link for link in links)
