"""Folders and files are small enough to read: at most thirty files in a folder, at most four hundred lines in a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
PLACES = ("src", "native", "benchmarks", "tests", "scripts")

MOST_FILES = 30
"""In a folder, beside its `__init__.py` and its README. A C++ source and its header are one file here."""
MOST_LINES = 400
SOURCES = frozenset({".py", ".cpp", ".hpp", ".c", ".h", ".js", ".css", ".sh", ".go", ".java", ".rs", ".cu", ".cl"})
DATA = frozenset({".json", ".gz", ".cubin", ".ptx", ".collapsed", ".html", ".txt", ".md"})


def files(root: Path) -> list[Path]:
    """The source files and the data of the repository, without the products of a build or an interpreter."""
    kept = SOURCES | DATA
    return [path for place in PLACES for path in sorted((root / place).rglob("*")) if path.suffix in kept and path.is_file()]


def large_folders(root: Path) -> set[str]:
    counted = {_one_of_a_pair(path) for path in files(root) if path.name not in ("__init__.py", "README.md")}
    sizes = Counter(path.parent.relative_to(root).as_posix() for path in counted)
    return {folder for folder, size in sizes.items() if size > MOST_FILES}


def long_files(root: Path) -> set[str]:
    sources = [path for path in files(root) if path.suffix in SOURCES]
    return {path.relative_to(root).as_posix() for path in sources if len(path.read_bytes().splitlines()) > MOST_LINES}


def _one_of_a_pair(path: Path) -> Path:
    return path.with_suffix(".cpp") if path.suffix == ".hpp" else path


def test_no_folder_has_more_files_than_one_can_overlook() -> None:
    assert sorted(large_folders(ROOT)) == []


def test_no_file_is_longer_than_one_can_read() -> None:
    assert sorted(long_files(ROOT)) == []


def test_folders_that_are_too_large_are_found(tmp_path: Path) -> None:
    for folder, count in {"src/a": MOST_FILES, "src/b": MOST_FILES + 1, "docs": 2 * MOST_FILES}.items():
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            (tmp_path / folder / f"f{number}.cpp").touch()
            (tmp_path / folder / f"f{number}.hpp").touch()
        (tmp_path / folder / "__init__.py").touch()
        (tmp_path / folder / "f0.pyc").touch()
    assert large_folders(tmp_path) == {"src/b"}


def test_files_that_are_too_long_are_found(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name, lines in {"a.py": MOST_LINES, "b.py": MOST_LINES + 1, "c.json": 2 * MOST_LINES}.items():
        (tmp_path / "src" / name).write_text("x\n" * lines)
    assert long_files(tmp_path) == {"src/b.py"}
