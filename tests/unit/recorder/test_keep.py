"""The files that the recorder keeps for looking up names later, and those that a hostile program cannot make it keep."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.recorder.keep import Keeper

SECRET = b"PRIVATE KEY MATERIAL"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A profile of a recording whose one process is this one."""
    path = tmp_path / "p.aiflame"
    (path / "spool" / f"{os.getpid()}.1").mkdir(parents=True)
    return path


@pytest.fixture
def keeper(profile: Path) -> Iterator[Keeper]:
    with ControlPage.create(Folder.open(profile)) as page:
        yield Keeper(Folder.open(profile), page)


@pytest.fixture
def perf_map() -> Iterator[Path]:
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    yield path
    path.unlink(missing_ok=True)


def library(path: Path, content: bytes = b"\x7fELF" + bytes(5000)) -> mmap.mmap:
    """A file that this process has mapped as code."""
    path.write_bytes(content)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)


def kept(profile: Path, folder: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((profile / folder).iterdir())] if (profile / folder).exists() else []


def descriptors() -> set[int]:
    listed = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    return {number for number in listed if os.path.lexists(f"/proc/self/fd/{number}")}


def test_a_library_that_is_still_there_in_the_end_is_not_copied(keeper: Keeper, profile: Path, tmp_path: Path) -> None:
    with library(tmp_path / "lib.so"):
        keeper.look()
    keeper.finish()
    assert kept(profile, "binaries") == []


@pytest.mark.parametrize("gone", ["deleted", "replaced"])
@pytest.mark.parametrize("ended", [False, True], ids=["while mapped", "after its process"])
def test_one_that_is_gone_is(keeper: Keeper, profile: Path, tmp_path: Path, gone: str, ended: bool) -> None:
    mapped = library(tmp_path / "lib.so")
    keeper.look()
    (tmp_path / "lib.so").unlink()
    if gone == "replaced":
        (tmp_path / "lib.so").write_bytes(b"another")
    if ended:
        mapped.close()
    keeper.look()
    mapped.close()
    keeper.finish()
    assert kept(profile, "binaries") == [b"\x7fELF" + bytes(5000)]
    assert [oct(file.stat().st_mode & 0o777) for file in (profile / "binaries").iterdir()] == ["0o600"]


def test_where_nobody_seals_all_are(keeper: Keeper, profile: Path, tmp_path: Path) -> None:
    with library(tmp_path / "lib.so"):
        keeper.look()
    keeper.finish(all_of_them=True)
    assert (tmp_path / "lib.so").read_bytes() in kept(profile, "binaries")


def test_no_descriptor_stays_open(keeper: Keeper, tmp_path: Path) -> None:
    before = descriptors()
    with library(tmp_path / "lib.so"):
        keeper.look()
        assert descriptors() - before
    keeper.finish()
    held = keeper.held()
    # Those of libraries that are still there (Python's, too, where they are) are the caller's. Files of earlier tests may close.
    assert held and descriptors() - before <= set(held.values())
    for descriptor in held.values():
        os.close(descriptor)


def test_a_link_put_in_the_place_of_a_library_is_not_followed(keeper: Keeper, profile: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    with library(tmp_path / "lib.so"):
        (tmp_path / "lib.so").unlink()
        (tmp_path / "lib.so (deleted)").symlink_to(secret)
        (tmp_path / "lib.so").symlink_to(secret)
        keeper.look()
    keeper.finish(all_of_them=True)
    assert SECRET not in kept(profile, "binaries")


def test_a_perf_map_is_kept(keeper: Keeper, profile: Path, perf_map: Path) -> None:
    perf_map.write_bytes(b"1000 10 compiled\n")
    keeper.finish()
    assert kept(profile, "jit") == [b"1000 10 compiled\n"]


@pytest.mark.parametrize("planted", ["symbolic link", "hard link", "pipe", "folder", "another user's"])
def test_a_file_planted_at_its_name_is_not_used(keeper: Keeper, profile: Path, perf_map: Path, tmp_path: Path, planted: str) -> None:
    secret = Path("/tmp") / f"secret-{os.getpid()}"
    secret.write_bytes(SECRET)
    try:
        if planted == "symbolic link":
            perf_map.symlink_to(secret)
        elif planted == "hard link":
            perf_map.hardlink_to(secret)
        elif planted == "pipe":
            os.mkfifo(perf_map)
        elif planted == "folder":
            perf_map.mkdir()
        else:
            if os.geteuid():
                pytest.skip("to give a file away needs root")
            perf_map.write_bytes(SECRET)
            os.chown(perf_map, 33, 33)
        keeper.look()
        keeper.finish()
    finally:
        secret.unlink()
        if planted == "folder":
            perf_map.rmdir()
    assert kept(profile, "jit") == []


def test_a_folder_of_the_spool_that_names_no_process_is_passed_over(keeper: Keeper, profile: Path) -> None:
    (profile / "spool/nobody").mkdir()
    (profile / "spool/..x").mkdir()
    keeper.look()
    keeper.finish()
    assert kept(profile, "jit") == []
