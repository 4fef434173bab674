"""An agent reaches the folders and commands that the server's user named, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiles import sealed

from aiflame.agents import recording
from aiflame.agents.access import Access
from aiflame.agents.tools import Tools
from aiflame.errors import AiflameError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sealed(tmp_path / "runs/in.aiflame")
    sealed(tmp_path / "runs/deep/er.aiflame")
    sealed(tmp_path / "secret.aiflame")
    (tmp_path / "runs/link.aiflame").symlink_to(tmp_path / "secret.aiflame")
    return tmp_path / "runs"


def test_profiles_below_a_folder_open_by_name_and_by_path(folder: Path) -> None:
    access = Access.to([folder])
    for name in ("in.aiflame", "deep/er.aiflame", str(folder / "in.aiflame"), "deep/../in.aiflame"):
        assert access.open(name).store.path.is_relative_to(folder)
    assert access.path("").name == "in.aiflame"


@pytest.mark.parametrize(
    "name", ["../secret.aiflame", "link.aiflame", "{outside}", ".", "/etc", "/nowhere/x.aiflame", "a\0b", "../runs2/x"]
)
def test_nothing_outside_is_opened_nor_said_to_exist(folder: Path, name: str) -> None:
    with pytest.raises(AiflameError, match="lies outside the folders of this server"):
        Access.to([folder]).path(name.format(outside=folder.parent / "secret.aiflame"))


def test_the_newest_profile_is_no_link_to_another_folder(folder: Path) -> None:
    for name in ("in.aiflame", "deep"):
        (folder / name).rename(folder.parent / name)
    with pytest.raises(AiflameError, match="nothing recorded: no profile"):
        Access.to([folder]).path("")


def test_a_missing_folder_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="is no folder"):
        Access.to([tmp_path / "none"])


def test_nothing_is_recorded_unless_it_was_allowed(folder: Path) -> None:
    with pytest.raises(AiflameError, match="may not record: its user allows it with aiflame mcp --allow-record"):
        Tools(Access.to([folder])).record(["touch", str(folder / "x")])
    assert not (folder / "x").exists()


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        (["python", "train.py"], True),
        (["python", "train.py", "--fast"], True),
        (["python", "other.py"], False),
        (["python"], False),
        (["python train.py"], False),
        ([], False),
    ],
)
def test_a_command_is_allowed_by_its_first_words(folder: Path, command: list[str], allowed: bool) -> None:
    access = Access.to([folder], commands=["python train.py"])
    if allowed:
        access.refuse_command(command)
    else:
        with pytest.raises(AiflameError, match=r"only commands that begin with: python train\.py"):
            access.refuse_command(command)


@pytest.mark.parametrize("name", ["../x", "a/b", "-o", "", " ", ".hidden", "x" * 200])
def test_a_new_profile_has_a_name_without_a_folder(name: str) -> None:
    if not name:
        assert "/" not in recording._profile_name(name, "/usr/bin/$(odd) name")
    else:
        with pytest.raises(AiflameError, match="no folder"):
            recording._profile_name(name, "python")


def test_an_existing_profile_is_not_recorded_over(folder: Path) -> None:
    with pytest.raises(AiflameError, match=r"in\.aiflame exists: choose another name"):
        Tools(Access.to([folder], any_command=True)).record(["true"], name="in")


@pytest.mark.parametrize("intra", ["/tmp/passes.py", "auto:.*", "--force"])
def test_passes_from_files_are_not_loaded(folder: Path, intra: str) -> None:
    with pytest.raises(AiflameError, match="intra is one of"):
        Tools(Access.to([folder], any_command=True)).record(["true"], intra=intra)
