"""docs/profile-format.md describes the schema as it is."""

from __future__ import annotations

from pathlib import Path

from aiflame.profile.schema.describe import renewed


def test_the_page_has_the_tables_of_the_schema():
    page = (Path(__file__).parents[3] / "docs/profile-format.md").read_text()
    assert page == renewed(page), "run `python -m aiflame.profile.schema.describe docs/profile-format.md`"
