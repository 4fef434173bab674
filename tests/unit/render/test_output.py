"""Files that commands write where a person says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiflame.render.output import new_file


def test_a_file_is_its_owners_alone_and_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    with new_file(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert list(tmp_path.iterdir()) == [path]


def test_when_it_fails_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), new_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_target_of_ones_own_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    with new_file(tmp_path / "link") as file:
        file.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="to give a link away needs root")
def test_another_users_link_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(victim)
    os.lchown(tmp_path / "link", 33, 33)
    with pytest.raises(PermissionError, match="another user"), new_file(tmp_path / "link"):
        pass
    assert victim.read_bytes() == b"precious"
