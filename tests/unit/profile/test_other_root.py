"""Files below another root folder: links there may be hostile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiflame.profile.folder.other_root import find, open_file, open_root


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "secret").write_text("ours")
    inside = tmp_path / "root"
    (inside / "etc").mkdir(parents=True)
    (inside / "etc/name").write_text("theirs")
    descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def text(root: int, path: str) -> str:
    with os.fdopen(open_file(root, path), encoding="utf-8") as file:
        return file.read()


def test_links_lead_where_they_lead_for_that_process(root: int, tmp_path: Path) -> None:
    (tmp_path / "root/absolute").symlink_to("/etc/name")
    (tmp_path / "root/climbs").symlink_to("../../../etc/name")
    (tmp_path / "root/lib").symlink_to("etc")
    assert [text(root, path) for path in ("/etc/name", "/absolute", "/climbs", "/lib/name", "/../etc/name")] == ["theirs"] * 5


@pytest.mark.parametrize("target", ["{tmp}/secret", "../secret", "/proc/self/root{tmp}/secret", "/proc/self/cwd"])
def test_no_link_leads_to_a_file_of_ours(root: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "root/link").symlink_to(target.format(tmp=tmp_path))
    with pytest.raises(OSError, match="link"):
        open_file(root, "/link")


def test_a_link_of_the_kernel_leads_nowhere(tmp_path: Path) -> None:
    """In a root folder that has /proc: `/proc/self` is the reader there, and its links lead to the reader's files."""
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY)
    (tmp_path / "file").write_text("ours")
    file = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="/proc/self/fd"):
            open_file(descriptor, f"/proc/self/fd/{file}")
    finally:
        os.close(descriptor)
        os.close(file)


def test_regular_files_alone_are_opened(root: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "root/pipe")
    for path in ("/pipe", "/etc", "/missing"):
        with pytest.raises(OSError, match=path):
            open_file(root, path)


def test_a_file_is_told_apart_without_opening_it(root: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "root/pipe")
    descriptor = find(root, "/pipe")
    try:
        assert os.path.samestat(os.fstat(descriptor), (tmp_path / "root/pipe").stat())
    finally:
        os.close(descriptor)


def test_the_root_of_a_process() -> None:
    descriptor = open_root(os.getpid())
    try:
        assert os.path.samestat(os.fstat(descriptor), Path("/").stat())
    finally:
        os.close(descriptor)
