"""Files of a program that ran in a container: its own are read, and none of ours at the same paths."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiflame.resolve.files.outside import Outside, Source


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    """The program's root is `root`; there, a source lies at a path at which we have another one."""
    (tmp_path / "a.py").write_text("ours")
    theirs = tmp_path / "root" / tmp_path.relative_to("/")
    theirs.mkdir(parents=True)
    (theirs / "a.py").write_text("theirs")
    (theirs / "only_there.py").write_text("theirs alone")
    (tmp_path / "only_here.py").write_text("ours alone")
    descriptor = os.open(tmp_path / "root", os.O_PATH | os.O_DIRECTORY)
    yield Outside(allowed=True, began=time.time() + 1, ended=time.time() + 2, other_root=True, root=descriptor)
    os.close(descriptor)


def without_root(outside: Outside) -> Outside:
    return Outside(allowed=True, began=outside.began, ended=outside.ended, other_root=True)


def test_sources_are_those_of_the_container(outside: Outside, tmp_path: Path) -> None:
    assert outside.source(tmp_path / "a.py", 0).content == b"theirs"
    assert outside.source(tmp_path / "only_there.py", 0).content == b"theirs alone"
    assert outside.source(tmp_path / "only_here.py", 0) == Source()


def test_a_link_in_the_container_leads_to_none_of_ours(outside: Outside, tmp_path: Path) -> None:
    (tmp_path / "root/link.py").symlink_to(tmp_path / "only_here.py")
    (tmp_path / "root/climbs.py").symlink_to("../only_here.py")
    assert outside.source(Path("/link.py"), 0) == Source()
    assert outside.source(Path("/climbs.py"), 0) == Source()


def test_when_the_root_is_not_held_no_source_is_read(outside: Outside, tmp_path: Path) -> None:
    later = without_root(outside)
    assert later.source(tmp_path / "a.py", 0) == Source()
    assert later.compiled(tmp_path / "a.py", 1000) is None
    assert later.written_by_process([tmp_path / "a.py"], 1.0, 1000) is None


def test_files_of_compilers_are_those_of_the_container(outside: Outside, tmp_path: Path) -> None:
    assert outside.compiled(tmp_path / "a.py", 1000) == b"theirs"
    assert outside.written_by_process([tmp_path / "a.py"], 1.0, 1000) == b"theirs"


def test_a_binary_of_the_container_is_read_like_a_strangers(outside: Outside, tmp_path: Path) -> None:
    program = Path(sys.executable).resolve()
    place = tmp_path / "root/bin"
    place.mkdir()
    (place / "program").write_bytes(program.read_bytes())
    there, here = outside.elf(Path("/bin/program")), outside.elf(program)
    assert there is not None
    assert here is not None
    assert (there.of_profile, here.of_profile) == (True, False)
    assert there.build_id == here.build_id
