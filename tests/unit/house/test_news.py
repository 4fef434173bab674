"""scripts/news.py: fragments become a section of the changelog."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import news
import pytest

ROOT = Path(__file__).parents[3]

CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0\n\n- Old.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("How to\n")
    (tmp_path / "412.fixed.md").write_text("A bug\nis gone.\n")
    (tmp_path / "wall-clock.feature.md").write_text("A feature.\n")
    return tmp_path


def test_fragments_are_grouped_one_line_each(folder: Path) -> None:
    assert news.section(news.fragments(folder)) == "### New\n\n- A feature.\n\n### Fixed\n\n- A bug is gone.\n"


@pytest.mark.parametrize(("name", "text"), [("412.md", "x"), ("412.better.md", "x"), ("412.fixed.txt", "x"), ("412.fixed.md", " \n")])
def test_a_file_that_would_be_lost_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit, match="412"):
        news.fragments(tmp_path)


def test_a_version_gets_the_news_and_nothing_stays_unreleased() -> None:
    text = news.released(CHANGELOG, "0.3.0", "### New\n\n- A feature.\n")
    assert text == "# Changelog\n\n## Unreleased\n\n## 0.3.0\n\n### New\n\n- A feature.\n\n## 0.2.0\n\n- Old.\n"


@pytest.mark.parametrize("version", ["0.2.0", "next", "0.3"])
def test_only_a_new_version_is_written(version: str) -> None:
    with pytest.raises(SystemExit, match="no new version"):
        news.released(CHANGELOG, version, "### New\n\n- A feature.\n")


def test_the_fragments_of_this_repository_are_whole() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "news.py"], check=True, stdout=subprocess.DEVNULL)


def test_the_changelog_takes_them() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.count(news.UNRELEASED) == 1
    assert news.released(changelog, "9.9.9", "### New\n\n- A feature.\n").count("## 9.9.9\n") == 1
