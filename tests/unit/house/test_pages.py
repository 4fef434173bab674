"""Links of the pages lead to files that are there, and the index names every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("newsfragments/README.md"), *ROOT.glob("benchmarks/*.md")])


def broken_links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [target for target in targets if target and "://" not in target and not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md) [b](there.md#part) [c](gone.md) `[d](in-code.md)` [e](https://example.org/x)\n")
    assert broken_links(page) == ["gone.md"]


@pytest.mark.parametrize("folder", ["", "internals", "recipes"])
def test_the_index_names_every_page_of_its_folder(folder: str) -> None:
    index = (DOCS / folder / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert sorted(name for name in pages if f"]({name})" not in index) == []


def test_the_plan_stays_short() -> None:
    assert len((DOCS / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 150, "move details to docs/internals"
