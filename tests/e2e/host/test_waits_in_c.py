"""Waits of a program without Python are named with the function that its author wrote, with its line where there is debug information, and
with the kind of lock."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from recording import recorder

from aiflame.analyze.findings.listing import listing

SOURCE = Path(__file__).parent / "programs/waits_in_c.c"
SECONDS = 8
WAITS = {
    "mutex": ("takes_mutex", "a lock"),
    "rwlock": ("takes_rwlock", "a read-write lock"),
    "semaphore": ("takes_semaphore", "a semaphore"),
    "barrier": ("meets", "a barrier"),
}
BUILDS = {"with lines": ("-g",), "without": ()}


class Sentences:
    """Of findings about waits, by the way in which the program waits; all ways of a build are recorded at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.of_build = cache(self._of_build)

    def _of_build(self, build: str) -> dict[str, list[str]]:
        program = self.folder / "waits"
        subprocess.run(["gcc", "-O1", *BUILDS[build], "-pthread", "-D_GNU_SOURCE", "-o", str(program), str(SOURCE)], check=True)

        def record(way: str) -> list[str]:
            folder = self.folder / f"{build} {way}"
            folder.mkdir()
            run = recorder(folder)(program, way, SECONDS, options=("--wall", "99"))
            assert run.status == 0, run.stderr
            listed = listing(run.profile().store, 99).findings
            return [one.finding.sentence for one in listed if one.finding.kind.startswith("waiting-")]

        ways = (*WAITS, "condition")
        with ThreadPoolExecutor(len(ways)) as pool:
            return dict(zip(ways, pool.map(record, ways), strict=True))


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Sentences:
    return Sentences(tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("way", WAITS)
@pytest.mark.parametrize("build", BUILDS)
def test_a_wait_names_the_function_that_waits(sentences: Sentences, build: str, way: str) -> None:
    function, primitive = WAITS[way]
    (sentence,) = sentences.of_build(build)[way]
    line = next(number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if text.endswith(f"// {way}"))
    # The frame of a caller is at its call, or at the next line where the call ends the statement.
    where = {f"{SOURCE.name}:{at}" for at in (line, line + 1)} if build == "with lines" else {"waits"}
    assert sentence.startswith(f"The main thread waits for {primitive} ")
    assert any(f"most in {function}() ({one})" in sentence for one in where)


@pytest.mark.parametrize(("way", "holder"), [("mutex", "holds_mutex"), ("rwlock", "holds_rwlock")])
def test_a_lock_names_who_held_it(sentences: Sentences, way: str, holder: str) -> None:
    assert f"held by another thread in {holder}() (waits)" in sentences.of_build("without")[way][0]


def test_what_nobody_holds_has_no_holder(sentences: Sentences) -> None:
    assert not any("held" in sentences.of_build("without")[way][0] for way in ("semaphore", "barrier"))


def test_a_thread_that_waits_for_work_is_silent(sentences: Sentences) -> None:
    """A condition variable says that there is some."""
    assert sentences.of_build("with lines")["condition"] == []
