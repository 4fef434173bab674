"""A person types before the worker has answered, as it happens on a busy machine: nothing fails, and nothing that was typed is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from called_lines import profile as called
from made_ranks import job
from rank_pages import SLEEPS
from report_profiles import training
from report_visits import Opener, Visit

import aiflame
from aiflame.render.report.document import write

HELD = """
(() => {
  const held = [];
  let holds = true;
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (...given) {
    if (holds) held.push([this, given]);
    else post.apply(this, given);
  };
  window.release = () => {
    holds = false;
    for (const [worker, given] of held.splice(0)) post.apply(worker, given);
  };
})();
"""
"""Runs first: the worker hears no question before `release()`."""
KEYS = (
    *"wasdfinpcmuxzhr[]+=-0",
    *("Enter", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End", "Tab", "Escape"),
)
CONTENT = {
    "flame": "document.querySelector('.view[data-of=flame]')?.dataset.settled",
    "scope": "document.querySelector('.sc-canvas')?.dataset.drawn",
    "timeline": "document.querySelector('.view[data-of=timeline] canvas')?.dataset.drawn",
    "code": "document.querySelectorAll('.kernel-name').length > 0",
    "source": "document.querySelectorAll('.source .kernel-name').length > 0",
    "tables": "document.querySelectorAll('.grid .row').length > 0",
    "ranks": "document.querySelector('[data-table=ranks] .row')",
}
"""By view: its data are on the screen."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("early")
    write(training(folder / "training"), folder / "training.html")
    write(called(folder / "source"), folder / "source.html")
    write(aiflame.open(job(folder / "job.aiflame", SLEEPS)).store, folder / "ranks.html")
    return {name: folder / f"{name if name in ('source', 'ranks') else 'training'}.html" for name in CONTENT}


def release(visit: Visit) -> None:
    visit.page.evaluate("release()")


@pytest.mark.parametrize("name", CONTENT)
def test_keys_and_letters_before_the_first_answer_do_no_harm(visit: Opener, reports: dict[str, Path], name: str) -> None:
    seen = visit(reports[name], f"#view={name}", before=HELD)
    assert seen.view() == name
    seen.press(*KEYS)
    fields = seen.page.locator(".view:not([hidden]) input[type=search]")
    for at in range(fields.count()):
        if fields.nth(at).is_visible():
            fields.nth(at).press_sequentially("a")
            fields.nth(at).fill("")
    release(seen)
    seen.wait(CONTENT[name])
    assert not seen.page.is_visible("#failed"), seen.text("#failed")


def test_the_filter_of_the_address_can_be_taken_away_before_the_table_is_there(visit: Opener, reports: dict[str, Path]) -> None:
    seen = visit(reports["tables"], "#view=tables&filter=nothing", before=HELD)
    seen.page.focus(".filter")
    assert seen.page.input_value(".filter") == "nothing"
    seen.press("Escape")
    release(seen)
    seen.wait(CONTENT["tables"])
    assert seen.state() == {"view": "tables"}
    names = seen.texts(".table-name")
    assert len(set(names)) == len(names) > 1


@pytest.mark.parametrize("name", ["tables", "ranks"])
def test_letters_of_a_filter_are_not_written_into_the_address_of_the_next_view(visit: Opener, reports: dict[str, Path], name: str) -> None:
    """The filter waits for more letters; the person leaves before it stops waiting."""
    seen = visit(reports[name], f"#view={name}")
    seen.wait(CONTENT[name])
    seen.page.evaluate(
        """name => {
          const filter = document.querySelector(`.view[data-of=${name}] .filter`);
          filter.value = "a";
          filter.dispatchEvent(new Event("input"));
          location.hash = "#view=overview";
        }""",
        name,
    )
    seen.wait("!document.querySelector('.view[data-of=overview]').hidden")
    seen.page.wait_for_timeout(500)
    assert seen.state() == {"view": "overview"}
