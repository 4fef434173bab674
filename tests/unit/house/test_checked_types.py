"""mypy checks every Python file of the repository but the programs that tests record, and each name once in a run."""

from __future__ import annotations

from pathlib import Path

from check_types import ROOMS, ROOT, of_different_names, sources

NOT_CHECKED = {"data", "programs"}


def test_every_file_of_tests_benchmarks_scripts_and_examples_is_checked() -> None:
    tops = {room.split("/")[0] for room in ROOMS}
    everything = {path for top in tops for path in (ROOT / top).rglob("*.py") if not NOT_CHECKED & {*path.relative_to(ROOT).parts}}
    assert sorted(everything - {path for room in ROOMS for path in sources(room)}) == []
    assert {"benchmarks", "examples", "scripts", "tests"} <= tops


def test_files_of_one_name_are_checked_in_different_runs() -> None:
    one, other, third = Path("a/conftest.py"), Path("b/conftest.py"), Path("b/test_b.py")
    assert of_different_names([one, other, third]) == [[one, third], [other]]
