"""Collects news fragments (newsfragments/README.md).

news.py             prints them as they will stand in CHANGELOG.md
news.py VERSION     writes them into CHANGELOG.md below "Unreleased", and removes the files
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TITLES = {"feature": "New", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "security": "Security"}
UNRELEASED = "## Unreleased\n"


def fragments(folder: Path) -> dict[str, list[Path]]:
    """The files of each type, in the order of their names. A file that is named otherwise, or has no text, is an error."""
    by_type: dict[str, list[Path]] = {kind: [] for kind in TITLES}
    for path in sorted(folder.glob("*")):
        if path.name == "README.md":
            continue
        match = re.fullmatch(r"[\w+-]+\.(\w+)\.md", path.name)
        if match is None or match[1] not in TITLES:
            sys.exit(f"{path}: fragments are called SUBJECT.TYPE.md, with one of {', '.join(TITLES)}")
        if not path.read_text(encoding="utf-8").strip():
            sys.exit(f"{path} is empty: write one line about the change")
        by_type[match[1]].append(path)
    return by_type


def section(by_type: dict[str, list[Path]]) -> str:
    parts = []
    for kind, paths in by_type.items():
        lines = ["- " + " ".join(path.read_text(encoding="utf-8").split()) for path in paths]
        if lines:
            parts.append(f"### {TITLES[kind]}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def released(changelog: str, version: str, news: str) -> str:
    """The changelog with these news as a version of its own, and nothing unreleased."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or f"## {version}\n" in changelog:
        sys.exit(f"{version} is no new version: it has three numbers, and is not in CHANGELOG.md yet")
    before, marker, after = changelog.partition(UNRELEASED)
    if not marker:
        sys.exit('CHANGELOG.md has no heading "## Unreleased"')
    return f"{before}{UNRELEASED}\n## {version}\n\n{news}{after}"


def main() -> None:
    by_type = fragments(ROOT / "newsfragments")
    news = section(by_type)
    if len(sys.argv) == 1:
        print(news or "No news fragments.")
        return
    if not news:
        sys.exit("There are no news fragments: nothing to write")
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(released(changelog.read_text(encoding="utf-8"), sys.argv[1], news), encoding="utf-8")
    for paths in by_type.values():
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    main()
