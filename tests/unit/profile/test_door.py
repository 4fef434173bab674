"""Files of a profile are opened by descriptor and component: nothing outside is read, changed or removed through a profile."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder, refuse_foreign_entries

SECRET = "the reader's own text"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file that is none of the profile's."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "canary").write_text(SECRET)
    return folder


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "p.aiflame"
    (path / "tables" / "codes").mkdir(parents=True)
    (path / "meta.json").write_text("{}")
    (path / "tables" / "codes" / "0.parquet").write_bytes(b"rows")
    with within(10):
        yield path


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """A pipe that is opened without care waits for ever."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for somebody"))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside)


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path, outside: Path) -> None:
    before = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # its address may have 107 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.fchdir(before)
        os.close(before)


def device(path: Path, outside: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


FOREIGN = {link: "a symbolic link", hard_link: "a hard link", pipe: "a pipe", unix_socket: "a socket", device: "a device"}


def test_a_file_is_read_and_a_missing_one_is_none(profile):
    folder = Folder.open(profile)
    assert folder.read("tables", "codes", "0.parquet", limit=100) == b"rows"
    assert folder.read("tables", "none", "0.parquet", limit=100) is None
    assert folder.read("meta.json", "below a file", limit=100) is None
    assert folder.read("tables", limit=100) is None
    assert folder.folder("tables", "none").entries() == []


@pytest.mark.parametrize("plant", FOREIGN, ids=lambda plant: plant.__name__)
def test_only_a_plain_file_is_read_written_or_locked(profile, outside, plant):
    plant(profile / "control", outside / "canary")
    folder = Folder.open(profile)
    for use in (folder.file, folder.existing, folder.locked):
        with pytest.raises(AiflameError, match=rf"p\.aiflame/control .*{FOREIGN[plant]}"), use("control"):
            pytest.fail("it was opened")
    with pytest.raises(FileExistsError):
        folder.new_file("control")
    assert (outside / "canary").read_text() == SECRET


@pytest.mark.parametrize("plant", FOREIGN, ids=lambda plant: plant.__name__)
def test_a_new_file_replaces_a_link_and_leaves_its_target(profile, outside, plant):
    plant(profile / "control", outside / "canary")
    Folder.open(profile).write("control", b"new")
    assert (profile / "control").read_bytes() == b"new"
    assert not (profile / "control").is_symlink()
    assert (outside / "canary").read_text() == SECRET


def test_a_link_in_the_place_of_a_folder_leads_nowhere(profile, outside):
    (profile / "binaries").symlink_to(outside)
    folder = Folder.open(profile)
    for use in (
        lambda: folder.read("binaries", "canary", limit=100),
        lambda: folder.folder("binaries").entries(),
        lambda: folder.folder("binaries").write("canary", b"new"),
        lambda: folder.folder("binaries").remove("canary"),
        lambda: folder.folder("binaries").remove_tree("canary"),
        lambda: folder.make_folder("binaries"),
    ):
        with pytest.raises(AiflameError, match="binaries is a symbolic link"):
            use()
    assert [path.name for path in outside.iterdir()] == ["canary"]
    assert (outside / "canary").read_text() == SECRET


def test_removing_a_tree_removes_links_and_not_their_targets(profile, outside):
    (profile / "tables" / "codes" / "link").symlink_to(outside)
    (profile / "tables" / "to file").symlink_to(outside / "canary")
    os.mkfifo(profile / "tables" / "pipe")
    folder = Folder.open(profile)
    folder.remove_tree("tables")
    folder.remove_tree("tables")
    assert [path.name for path in profile.iterdir()] == ["meta.json"]
    assert (outside / "canary").read_text() == SECRET


@pytest.mark.parametrize("plant", [link, pipe, unix_socket])
def test_removing_a_file_removes_the_name_alone(profile, outside, plant):
    plant(profile / "control", outside / "canary")
    Folder.open(profile).remove("control")
    assert not (profile / "control").is_symlink()
    assert (outside / "canary").read_text() == SECRET


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "nul\0", "\ud800", "x" * 256, "../outside/canary"])
def test_a_name_that_is_more_than_a_name_is_refused(profile, outside, name):
    folder = Folder.open(profile)
    for use in (folder.read, folder.folder("tables").read):
        with pytest.raises(AiflameError, match="cannot be a file in it"):
            use(name, limit=100)
    for write in (folder.new_folder, folder.new_file, folder.remove, folder.remove_tree, folder.folder):
        with pytest.raises(AiflameError, match="cannot be a file in it"):
            write(name)


def test_names_that_are_not_text_are_names(profile):
    folder = Folder.open(profile)
    folder.write("\udcff\udcfe", b"bytes")
    assert folder.read("\udcff\udcfe", limit=10) == b"bytes"
    assert "\udcff\udcfe" in [entry.name for entry in folder.entries()]


def test_links_on_the_way_to_a_profile_are_the_users_own(profile, tmp_path):
    (tmp_path / "shortcut").symlink_to(profile)
    assert Folder.open(tmp_path / "shortcut").read("meta.json", limit=10) == b"{}"


def test_the_profile_stays_the_same_when_its_path_leads_elsewhere(profile, outside):
    folder = Folder.open(profile)
    profile.rename(profile.with_name("moved"))
    profile.symlink_to(outside)
    assert folder.read("meta.json", limit=10) == b"{}"
    folder.write("canary", b"new")
    assert (outside / "canary").read_text() == SECRET


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_new_files_belong_to_their_owner_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        folder = Folder.new(tmp_path / "new")
        folder.make_folder("made").write("written", b"")
        folder.new_folder("new").new_file("file").close()
        with folder.create("created"), folder.locked("lock"):
            pass
    finally:
        os.umask(before)
    for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_file_is_replaced_whole_or_not_at_all(profile):
    folder = Folder.open(profile)
    with contextlib.suppress(ZeroDivisionError), folder.create("meta.json") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert (profile / "meta.json").read_text() == "{}"
    with folder.create("meta.json") as file:
        file.write(b"whole")
        assert (profile / "meta.json").read_text() == "{}"
    assert (profile / "meta.json").read_text() == "whole"
    assert sorted(path.name for path in profile.iterdir()) == ["meta.json", "tables"]


def test_nobody_can_know_the_name_that_a_file_is_written_under(profile):
    names = set()
    folder = Folder.open(profile)
    for _ in range(20):
        with folder.create("meta.json"):
            names |= {path.name for path in profile.iterdir()}
    assert len(names - {"meta.json", "tables"}) == 20
    assert not any(str(os.getpid()) in name.split(".") for name in names)


def test_a_file_of_its_own_is_appended_to(profile):
    with Folder.open(profile).new_file("records") as file:
        assert file.write(b"one") == 3
        assert file.write(b"two") == 3
    assert (profile / "records").read_bytes() == b"onetwo"


def test_a_file_larger_than_the_limit_is_an_error(profile):
    (profile / "meta.json").write_bytes(bytes(11))
    assert Folder.open(profile).read("meta.json", limit=11) == bytes(11)
    with pytest.raises(AiflameError, match="larger than"):
        Folder.open(profile).read("meta.json", limit=10)


def test_a_lock_is_held_by_one_at_a_time(profile):
    order = []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with Folder.open(profile).locked("lock"):
            inside.set()
            leave.wait()
            order.append("first")

    def second() -> None:
        with Folder.open(profile).locked("lock"):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "second"]


def test_a_walk_names_everything_once_and_counts_bytes(profile):
    folder = Folder.open(profile)
    assert [entry.names for entry in folder.walk()] == [
        ("meta.json",),
        ("tables",),
        ("tables", "codes"),
        ("tables", "codes", "0.parquet"),
    ]
    assert folder.size() == len("{}") + len("rows")
    assert [entry.names for entry in folder.folder("tables").walk()] == [("codes",), ("codes", "0.parquet")]


def test_folders_in_folders_without_end_are_an_error(profile):
    deep = profile
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    folder = Folder.open(profile)
    for use in (lambda: list(folder.walk()), lambda: refuse_foreign_entries(folder)):
        with pytest.raises(AiflameError, match="deeper than in any profile"):
            use()


def test_descriptors_are_given_back(profile):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        folder = Folder.open(profile).folder("tables", "codes")
        folder.read("0.parquet", limit=10)
        folder.entries()
        folder.write("1.parquet", b"")
        with contextlib.suppress(AiflameError):
            folder.read("..", limit=10)
        del folder
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("place", ["stranger", "tables/stranger", "tables/codes/stranger"])
@pytest.mark.parametrize("plant", FOREIGN, ids=lambda plant: plant.__name__)
def test_a_profile_with_anything_but_plain_files_is_refused_by_name(profile, outside, place, plant):
    refuse_foreign_entries(Folder.open(profile))
    plant(profile / place, outside / "canary")
    with pytest.raises(AiflameError, match=rf"p\.aiflame/{place} .*{FOREIGN[plant]}") as error:
        refuse_foreign_entries(Folder.open(profile))
    assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_profile_with_a_file_of_another_user_is_refused(profile):
    os.chown(profile / "tables" / "codes" / "0.parquet", 12345, -1)
    with pytest.raises(AiflameError, match=r"0\.parquet belongs to another user than .*copy the profile"):
        refuse_foreign_entries(Folder.open(profile))
    for path in [profile, *profile.rglob("*")]:
        os.chown(path, 12345, -1)
    refuse_foreign_entries(Folder.open(profile))
