"""The report's tables in a real browser: sorted, filtered, copied, of any length, and a row leads to its frame, line or time."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest
from report_profiles import HOSTILE, hostile, training
from report_visits import COPIED, Opener, Visit
from small_program import SYMBOLS
from stories import Story, train

from aiflame.analyze.tables.table import Column, TableOf
from aiflame.render.report.document import write
from aiflame.render.report.overview import tables_block
from aiflame.render.report.page import page as report_page

MANY = 100_000


def page_of(path: Path, *tables: TableOf) -> Path:
    """A report that has these tables alone."""
    summary = {"metric": "gpu-time", "metrics": [{"name": "gpu-time"}, {"name": "cpu-time"}]}
    block = tables_block(list(tables))
    path.write_text("".join(report_page("tables", {"blocks": ["tables"], "summary": summary}, [("tables", block)])), encoding="utf-8")
    return path


COLUMNS = (
    Column("name", "Name"),
    Column("took", "Took", "ns", "number"),
    Column("share", "% of all", "", "share"),
    Column("rate", "Rate", "bytes/s", "number"),
    Column("place", "Where", "", "place"),
)


def small(path: Path) -> Path:
    rows = pl.DataFrame(
        {
            "name": ["beta", "alpha", "layer.10", "layer.9", 'say "a, b"'],
            "took": [5_000_000, 1_500, None, 2_000_000_000, 0],
            "share": [0.5, 0.25, 0.125, 0.125, 0.0],
            "rate": [2.5, None, 1e9, 0.0, 3.0],
            "place": ["/a/b/train.py:12", "/z/other.py:9", "", "/a/b/train.py:3", "/c/model.py:1"],
        }
    )
    return page_of(path, TableOf("functions", "Functions", COLUMNS, rows))


def column(visit: Visit, number: int) -> list[str]:
    """Texts of a column's cells, from 0."""
    return visit.texts(f".grid .row .cell:nth-child({number + 1})")


def shows(visit: Visit, names: list[str]) -> None:
    """Waits until the first column has these."""
    visit.page.wait_for_function(
        """names => {
          const cells = [...document.querySelectorAll(".grid .row .cell:first-child")];
          return JSON.stringify(cells.map((one) => one.innerText)) === JSON.stringify(names);
        }""",
        arg=names,
        timeout=20_000,
    )


def sort_by(visit: Visit, label: str) -> None:
    visit.page.locator(".grid-head button", has_text=label).click()


CAME = ["beta", "alpha", "layer.10", "layer.9", 'say "a, b"']


def test_amounts_are_written_as_a_person_reads_them(visit: Opener, tmp_path: Path) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables")
    shows(seen, CAME)
    assert column(seen, 1) == ["5 ms", "1.5 µs", "", "2 s", "0 ns"]
    assert column(seen, 2) == ["50.0%", "25.0%", "12.5%", "12.5%", "0.00%"]
    assert column(seen, 3) == ["2.5 bytes/s", "", "954 MiB/s", "0 bytes/s", "3 bytes/s"]
    assert column(seen, 4) == ["train.py:12", "other.py:9", "", "train.py:3", "model.py:1"]
    assert seen.page.locator(".grid .row").first.locator(".cell").last.get_attribute("title") == "/a/b/train.py:12"
    assert seen.text(".table-bar .row-count") == "5 rows, 100.0% of all"


def test_a_column_sorts_numbers_from_the_largest_and_texts_from_a_and_what_is_not_known_comes_last(visit: Opener, tmp_path: Path) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables")
    shows(seen, CAME)
    sort_by(seen, "Took")
    shows(seen, ["layer.9", "beta", "alpha", 'say "a, b"', "layer.10"])
    assert seen.page.get_attribute(".grid-head [role=columnheader]:nth-child(2)", "aria-sort") == "descending"
    sort_by(seen, "Took")
    shows(seen, ['say "a, b"', "alpha", "beta", "layer.9", "layer.10"])
    sort_by(seen, "Name")
    shows(seen, ["alpha", "beta", "layer.9", "layer.10", 'say "a, b"'])
    assert seen.state() == {"view": "tables", "sort": "name"}


def test_equal_rows_stay_in_the_order_in_which_they_came(visit: Opener, tmp_path: Path) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables&sort=share")
    shows(seen, ['say "a, b"', "layer.10", "layer.9", "alpha", "beta"])


def test_columns_are_sorted_by_keys_too(visit: Opener, tmp_path: Path) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables")
    shows(seen, CAME)
    seen.press("s")
    shows(seen, ["alpha", "beta", "layer.9", "layer.10", 'say "a, b"'])
    seen.press("s")
    shows(seen, ["layer.9", "beta", "alpha", 'say "a, b"', "layer.10"])
    seen.page.focus(".grid-head button >> nth=0")
    seen.press("Enter")
    shows(seen, ["alpha", "beta", "layer.9", "layer.10", 'say "a, b"'])


def test_rows_of_certain_names_are_a_chip_that_can_be_taken_away(visit: Opener, tmp_path: Path) -> None:
    """Also names inside of one of them: `layer.9` in `layer`."""
    seen = visit(small(tmp_path / "r.html"), "#view=tables&column=name&only=alpha;layer")
    shows(seen, ["alpha", "layer.10", "layer.9"])
    assert seen.text(".table-chip").replace("\n", "") == "Name: alpha, layer×"
    assert seen.page.input_value(".filter") == ""
    seen.page.type(".filter", "train")
    shows(seen, ["layer.9"])
    seen.page.fill(".filter", "")
    seen.click(".table-chip button")
    shows(seen, CAME)
    assert not seen.page.is_visible(".table-chip")
    assert seen.state() == {"view": "tables"}


def test_what_was_typed_just_now_is_not_lost_to_a_click(visit: Opener, tmp_path: Path) -> None:
    """Between a letter and the rows that have it lies a moment, for more letters to come."""
    seen = visit(small(tmp_path / "r.html"), "#view=tables&column=name&only=alpha;layer")
    shows(seen, ["alpha", "layer.10", "layer.9"])
    seen.page.evaluate(
        """() => {
          const filter = document.querySelector(".filter");
          filter.value = "train";
          filter.dispatchEvent(new Event("input"));
          document.querySelector(".table-chip button").click();
        }"""
    )
    shows(seen, ["beta", "layer.9"])
    assert seen.state() == {"view": "tables", "filter": "train"}


def test_names_that_have_signs_of_the_address_in_them(visit: Opener, tmp_path: Path) -> None:
    names = ["a;b", "kind:x", "/c/", "[copy host→device]", "a"]
    table = TableOf("functions", "Functions", COLUMNS[:1], pl.DataFrame({"name": names}))
    seen = visit(page_of(tmp_path / "r.html", table), r"#view=tables&column=name&only=a\;b;name:kind:x;[copy host→device];name:/c/")
    shows(seen, names[:4])
    assert "Name: a;b, kind:x, [copy host→device], /c/" in seen.text(".table-chip")


def test_a_finding_leads_to_rows_that_say_which_they_are(visit: Opener, tmp_path: Path) -> None:
    story = Story()
    for number in range(5):
        train(story, number, work=620, idle=380, wait="data")
    write(story.profile(tmp_path, symbols=SYMBOLS), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html")
    seen.page.locator(".finding", has_text="waiting for data").locator(".button").click()
    seen.page.wait_for_selector(".table-chip:not([hidden])")
    assert seen.text(".table-chip").replace("\n", "") == "Cause: data×"
    assert seen.page.input_value(".filter") == ""
    assert (seen.state()["table"], seen.state()["column"], seen.state()["only"]) == ("idle", "cause", "data")
    seen.wait("document.querySelectorAll('.grid .row').length > 0")
    assert set(seen.texts(".grid .row .cell:nth-child(1)")) == {"waiting for data"}


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("train", ["beta", "layer.9"]),
        ("TRAIN", ["beta", "layer.9"]),
        ("^layer", ["layer.10", "layer.9"]),
        ("other|model", ["alpha", 'say "a, b"']),
        ("layer.1", ["layer.10"]),
        ("(", []),
        ("nothing", []),
    ],
)
def test_a_filter_takes_text_and_expressions_and_lives_in_the_address(visit: Opener, tmp_path: Path, typed: str, left: list[str]) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables")
    shows(seen, CAME)
    seen.press("/")
    seen.page.keyboard.type(typed)
    seen.wait_for_state(filter=typed)
    shows(seen, left)
    assert seen.text(".table-bar .row-count").startswith(f"{len(left)} of 5 rows")
    assert seen.page.locator(".grid .note").is_visible() == (not left)
    seen.open(seen.page.evaluate("location.hash"))
    assert seen.page.input_value(".filter") == typed
    seen.page.locator(".grid .note").wait_for(state="hidden" if left else "visible")
    shows(seen, left)
    seen.page.focus(".filter")
    seen.press("Escape")
    shows(seen, CAME)


def test_bars_are_shares_of_the_columns_largest(visit: Opener, tmp_path: Path) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables")
    shows(seen, CAME)
    widths = seen.page.eval_on_selector_all(".cell.share i", "bars => bars.map((bar) => bar.style.width)")
    assert widths == ["100%", "50%", "25%", "25%"]


def test_a_column_without_anything_is_left_out(visit: Opener, tmp_path: Path) -> None:
    rows = pl.DataFrame({"name": ["a"], "took": [0], "share": [1.0], "rate": [None], "place": [""]}, schema_overrides={"rate": pl.Float64})
    seen = visit(page_of(tmp_path / "r.html", TableOf("functions", "Functions", COLUMNS, rows)), "#view=tables")
    shows(seen, ["a"])
    assert seen.texts(".grid-head button") == ["Name", "% of all"]


def many(path: Path) -> Path:
    rows = pl.DataFrame({"name": [f"kernel_{at}" for at in range(MANY)], "took": range(MANY), "share": [1 / MANY] * MANY})
    return page_of(
        path, TableOf("functions", "Functions", COLUMNS[:3], rows.with_columns(rate=0.0, place=pl.lit("")).select("name", "took", "share"))
    )


def test_of_a_hundred_thousand_rows_only_those_in_sight_are_in_the_page(visit: Opener, tmp_path: Path) -> None:
    seen = visit(many(tmp_path / "r.html"), "#view=tables")
    seen.wait("document.querySelectorAll('.grid .row').length > 20")
    assert seen.page.locator(".grid .row").count() < 200
    assert seen.page.get_attribute(".grid", "aria-rowcount") == str(MANY + 1)
    seen.press("End")
    seen.wait(f"[...document.querySelectorAll('.grid .row')].some((row) => row.innerText.startsWith('kernel_{MANY - 1}'))")
    last = seen.page.locator(".grid .row.chosen")
    assert last.locator(".cell").first.inner_text() == f"kernel_{MANY - 1}"
    assert last.bounding_box()["y"] + 26 <= 800
    sort_by(seen, "Took")
    seen.wait(f"document.querySelector('.grid .row').innerText.startsWith('kernel_{MANY - 1}')")
    assert seen.page.evaluate("document.querySelector('.grid').scrollTop") == 0
    seen.page.fill(".filter", "kernel_777")
    seen.wait("document.querySelector('.row-count').innerText.startsWith('111 of 100,000 rows')")
    assert seen.page.locator(".grid .row").count() <= 111


def test_rows_are_chosen_by_keys_and_stay_in_sight(visit: Opener, tmp_path: Path) -> None:
    seen = visit(many(tmp_path / "r.html"), "#view=tables")
    seen.wait("document.querySelectorAll('.grid .row').length > 20")
    for key, expected in (("ArrowDown", 1), ("j", 2), ("k", 1), ("ArrowUp", 0), ("ArrowUp", 0), ("PageDown", None)):
        seen.press(key)
        if expected is not None:
            seen.wait(f"document.querySelector('.row.chosen')?.innerText.startsWith('kernel_{expected}\\n')")
    for _ in range(40):
        seen.press("ArrowDown")
    seen.page.wait_for_timeout(500)
    box, head = seen.page.locator(".row.chosen").bounding_box(), seen.page.locator(".grid-head").bounding_box()
    assert head["y"] + head["height"] <= box["y"] <= 800 - 26


def test_the_copied_rows_are_csv_with_the_numbers_as_they_are(visit: Opener, tmp_path: Path) -> None:
    seen = visit(small(tmp_path / "r.html"), "#view=tables&sort=-took", before=COPIED)
    shows(seen, ["layer.9", "beta", "alpha", 'say "a, b"', "layer.10"])
    seen.press("c")
    seen.wait("window.copied !== undefined")
    text = seen.page.evaluate("window.copied")
    assert text.count("\r\n") == 6
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == ["Name", "Took (ns)", "% of all", "Rate (bytes/s)", "Where"]
    assert rows[0] == ["layer.9", "2000000000", "0.125", "0", "/a/b/train.py:3"]
    assert rows[3] == ['say "a, b"', "0", "0", "3", "/c/model.py:1"]
    assert rows[4] == ["layer.10", "", "0.125", "1000000000", ""]


def test_a_saved_file_has_all_rows_that_match_and_no_formulas(visit: Opener, tmp_path: Path) -> None:
    names = [*HOSTILE, "+1", "-1+2", "@SUM(A1)", "\tx", "line\nbreak", "plain"]
    rows = pl.DataFrame({"name": names, "took": range(len(names)), "share": [0.0] * len(names)})
    seen = visit(page_of(tmp_path / "r.html", TableOf("functions", "Functions", COLUMNS[:3], rows)), "#view=tables")
    seen.wait("document.querySelectorAll('.grid .row').length > 10")
    with seen.page.expect_download() as saving:
        seen.page.click("text=Save CSV")
    assert saving.value.suggested_filename == "functions.csv"
    saved = Path(saving.value.path()).read_bytes().decode()
    saved_names = [row[0] for row in csv.reader(io.StringIO(saved, newline=""))][1:]
    assert len(saved_names) == len(names)
    assert not [name for name in saved_names if name[0] in "=+-@\t\r"]
    assert [name for name in saved_names if name.startswith("'") and "cmd" not in name] == ["'+1", "'-1+2", "'@SUM(A1)"]
    assert HOSTILE[0] in saved_names
    assert HOSTILE[-1] in saved_names


LEADS = {
    "kernels": {"view": "code", "kernel": "sgemm"},
    "layers": {"view": "flame", "metric": "gpu-time", "by": "layer", "search": "^attn$", "focus": "layers.1"},
    "layer-groups": {"view": "flame", "metric": "gpu-time", "by": "layer", "search": "^attn$", "focus": r"/^layers\\.[0-9]+$/"},
    "phases": {"view": "flame", "metric": "gpu-time", "by": "phase", "search": "^Forward$"},
    "steps": {"view": "flame", "metric": "gpu-time", "by": "step", "search": "^Step\\.0$"},
    "gaps": {"view": "timeline"},
    "functions": {"view": "flame", "metric": "cpu-time", "by": "code", "search": "^train$"},
    "lines": {"view": "source", "metric": "cpu-time", "place": "/app/train.py:12"},
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the whole run: its CPU samples lie before its steps."""
    folder = tmp_path_factory.mktemp("tables")
    write(training(folder), folder / "r.html", whole_run=True)
    return folder / "r.html"


@pytest.mark.parametrize("table", list(LEADS))
@pytest.mark.parametrize("how", ["click", "Enter"])
def test_a_row_leads_to_what_it_is_about(visit: Opener, report: Path, table: str, how: str) -> None:
    seen = visit(report, f"#view=tables&table={table}")
    seen.wait("document.querySelectorAll('.grid .row').length > 0")
    if how == "click":
        seen.page.locator(".grid .row a").first.click()
    else:
        seen.press("Enter")
    seen.wait("location.hash.indexOf('view=tables') < 0")
    assert {name: value for name, value in seen.state().items() if name in LEADS[table]} == LEADS[table]


def test_every_table_can_be_opened(visit: Opener, report: Path) -> None:
    seen = visit(report, "#view=tables")
    seen.wait("document.querySelectorAll('.table-name').length > 5")
    for number, name in enumerate(seen.page.eval_on_selector_all(".table-name", "all => all.map((one) => one.dataset.table)")):
        link = seen.page.locator(".table-name").nth(number)
        count = int(link.locator(".soft").inner_text().replace(",", ""))
        link.click()
        seen.wait(f"document.querySelector('.grid').getAttribute('aria-rowcount') === '{count + 1}'")
        assert seen.state() == {"view": "tables", "table": name}


def test_hostile_names_stay_in_their_cells(visit: Opener, tmp_path: Path) -> None:
    write(hostile(tmp_path), tmp_path / "r.html")
    seen = visit(tmp_path / "r.html", "#view=tables&table=kernels")
    seen.wait("document.querySelectorAll('.grid .row').length > 5")
    names = column(seen, 0)
    assert HOSTILE[0] in names
    boxes = seen.page.eval_on_selector_all(".grid .row", "rows => rows.map((row) => row.getBoundingClientRect().height)")
    assert set(boxes) == {26}
    assert seen.page.evaluate("[window.harmed ?? 0, document.querySelectorAll('.grid script, .grid img').length]") == [0, 0]
