"""A profile that came from somebody else: no file beside it is read, whatever it names."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from binaries import build
from profiles import native
from spool_files import ProcessFiles, ended_profile

import aiflame
from aiflame.profile.folder import claims
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, Meta, Recorder
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.tables.store import Profile
from aiflame.resolve.files.outside import NOTHING, outside_of

DATA = Path(__file__).parents[1] / "data"
SECRET = "-----BEGIN PRIVATE KEY-----"
PID = 4_000_321

_listening: list[list[str]] = []


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has recorded nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(claims, "_of_this_process", {})
    return tmp_path / "state/aiflame"


def claimed(path: Path, identity: str = "ab" * 16) -> Meta:
    """The metadata of a profile as its recorder left it, with a claim."""
    path.mkdir(mode=0o700, exist_ok=True)
    assert claims.claim(Folder.open(path), identity)
    return Meta(
        version="1", command=("p",), complete=True, id=identity, host=Host.here(), recorder=Recorder.this(), started=Clocks.now(),
        ended=Clocks.now(),
    )  # fmt: skip


def recorded(path: Path, process: ProcessFiles, meta: Meta, cubin: bytes = b"") -> Path:
    ended_profile(path, process, meta=meta)
    if cubin:
        (path / "cubins").mkdir()
        (path / "cubins" / f"{7:016x}.cubin").write_bytes(cubin)
    return path


def program(module: Path, build_id: bytes, offset: int) -> ProcessFiles:
    """A process that ran `module`, and code of a run-time compiler."""
    files = ProcessFiles(PID, Clocks.now().monotonic_ns - 1_000_000, cwd="/")
    number = files.add("modules", path=str(module), build_id=build_id, base=0, low=0, high=1 << 40)
    top = files.add("stacks", parent=0, frame=native(number, offset))
    stack = files.add("stacks", parent=top, frame=FrameKind.ADDRESS << 60 | 0x7F00_0000_1008)
    thread = files.add("threads", tid=PID, creator=0, start_ns=files.start_ns, name="main")
    files.add("cpu_samples", thread=thread, stack=stack, weight=1, time_ns=files.start_ns + 5, period_ns=5_000_000)
    return files


def sampled_kernel() -> ProcessFiles:
    files = ProcessFiles(100, 1000)
    files.add("threads", tid=100, creator=0, start_ns=1000, name="main")
    files.add("cubins", crc=7, bytes=1)
    function = files.add("gpu_functions", cubin=7, name="_Z5scaleIfLi4EEvPT_i")
    reason = files.add("stall_reasons", name="wait")
    window = files.add("gpu_windows", begin_ns=1000, end_ns=5000, device="gpu", samples=10)
    files.add("gpu_samples", window=window, function=function, reason=reason, offset=16, samples=10, count=10)
    return files


def cubin_that_names(file: Path) -> bytes:
    """Its line table names that file, as one of unknown length."""
    data = bytearray((DATA / "lines.cubin").read_bytes())
    folder, name = b"/tmp/aiflame-kernels\0", b"kernels.cu\0"
    assert len(os.fsencode(file.parent)) == len(folder) - 1 and len(file.name) == len(name) - 1
    data[data.find(folder) :][: len(folder)]
    at = data.find(folder)
    data[at : at + len(folder) - 1] = os.fsencode(file.parent)
    at = data.find(name)
    data[at : at + len(name) - 1] = file.name.encode()
    at += len(name)
    for number in range(3):  # folder, time, length: LEB128
        end = at
        while data[end] & 0x80:
            end += 1
        if number == 2:
            data[at : end + 1] = bytes([0x80] * (end - at)) + b"\0"
        at = end + 1
    return bytes(data)


@pytest.fixture
def private_folder() -> Iterator[Path]:
    """A folder whose path is as long as that of the folder which the test's cubin names."""
    folder = Path("/tmp/private-keyring")
    folder.mkdir(mode=0o700, exist_ok=True)
    yield folder
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def _note_opened(event: str, about: tuple[object, ...]) -> None:
    if _listening and event == "open":
        _listening[-1].append(str(about[0]))


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The files that Python opens meanwhile."""
    if not _listening:
        sys.addaudithook(_note_opened)
    names: list[str] = []
    _listening.append(names)
    try:
        yield names
    finally:
        _listening[:] = [[]]


def texts(path: Path) -> str:
    profile = aiflame.open(path)
    return "\n".join(profile.table("sources")["text"]) if profile.store.has("sources") else ""


def test_a_strangers_cubin_cannot_have_a_private_file_read(tmp_path: Path, private_folder: Path) -> None:
    file = private_folder / "secret.key"
    file.write_text(SECRET)
    stranger = Meta(version="1", command=("p",), complete=True, id="cd" * 16, host=Host.here(), started=Clocks.now())
    path = recorded(tmp_path / "p", sampled_kernel(), stranger, cubin_that_names(file))
    with opened_files() as names:
        assert texts(path) == ""
    assert str(file) not in names
    assert str(file) in aiflame.open(path).table("gpu_lines")["file"].to_list(), "the line table was read"


def test_a_file_of_unknown_length_is_a_source_only_by_its_name(tmp_path: Path, private_folder: Path) -> None:
    """A recorded program may be hostile, too: its kernels must not put an arbitrary file into a report that is passed on."""
    for name, kept in (("secret.key", False), ("kernel0.cu", True)):
        file = private_folder / name
        file.write_text(SECRET)
        path = tmp_path / name
        path = recorded(path, sampled_kernel(), claimed(path, os.urandom(16).hex()), cubin_that_names(file))
        assert (SECRET in texts(path)) == kept


def test_neither_binaries_nor_perf_maps_are_opened_for_a_strangers_profile(tmp_path: Path) -> None:
    binary = build(tmp_path)
    perf_map = Path(f"/tmp/perf-{PID}.map")
    stranger = Meta(version="1", command=("p",), complete=True, id="cd" * 16, host=Host.here(), started=Clocks.now())
    path = recorded(tmp_path / "p", program(binary.path, binary.build_id, binary.marks["leaf"]), stranger)
    perf_map.write_text("7f0000001000 40 compiled\n")
    try:
        with opened_files() as names:
            profile = aiflame.open(path)
    finally:
        perf_map.unlink()
    beside = [name for name in names if name.startswith("/") and not name.startswith((str(path), sys.prefix, sys.base_prefix, "/proc/"))]
    assert not [name for name in beside if name in (str(binary.path), str(perf_map)) or "/debug/" in name]
    assert [name for name in profile.table("symbols")["name"] if not name.startswith("[unknown]")] == []
    [note] = [note for note in profile.store.notes() if "have no names" in note]
    assert note.startswith("functions of program have no names")


def test_the_recorders_own_profile_has_names_and_later_opening_reads_nothing(tmp_path: Path, state: Path) -> None:
    binary = build(tmp_path)
    path = tmp_path / "p"
    process = program(binary.path, binary.build_id, binary.marks["leaf"])
    meta = claimed(path)
    perf_map = Path(f"/tmp/perf-{PID}.map")
    perf_map.write_text("7f0000001000 40 compiled\n")
    try:
        recorded(path, process, meta)
        names = set(aiflame.open(path).table("symbols")["name"])
    finally:
        perf_map.unlink()
    assert names == {"app::outer", "middle", "leaf", "compiled"}
    assert list((state / "recordings").iterdir()) == [], "the claim is withdrawn"
    with opened_files() as later:
        assert set(aiflame.open(path).table("symbols")["name"]) == names
    assert str(binary.path) not in later


def test_a_profile_that_came_back_from_somebody_else_proves_nothing(tmp_path: Path) -> None:
    """The person who had the profile knows its id."""
    path = tmp_path / "p"
    meta = claimed(path)
    ended_profile(path, ProcessFiles(), meta=meta)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    assert claims.proven(Folder.open(path), meta.id)
    assert not claims.proven(Folder.open(copy), meta.id)
    renamed = path.rename(tmp_path / "renamed")
    assert claims.proven(Folder.open(renamed), meta.id)


def test_the_next_command_of_the_same_user_proves_itself_by_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p"
    meta = claimed(path)
    monkeypatch.setattr(claims, "_of_this_process", {})  # another process
    assert claims.proven(Folder.open(path), meta.id)
    claims.withdraw(meta.id)
    assert not claims.proven(Folder.open(path), meta.id)


def test_without_a_state_folder_the_recorder_itself_still_proves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    path = tmp_path / "p"
    path.mkdir(mode=0o700)
    assert not claims.claim(Folder.open(path), "ab" * 16)
    assert claims.proven(Folder.open(path), "ab" * 16)
    monkeypatch.setattr(claims, "_of_this_process", {})
    assert not claims.proven(Folder.open(path), "ab" * 16)


def _forged(claim: Path) -> None:
    claim.write_text(json.dumps({"host": "elsewhere", "device": 1, "inode": 2}))


def _linked(claim: Path) -> None:
    claim.rename(claim.with_suffix(".real"))
    claim.symlink_to(claim.with_suffix(".real"))


def _pipe(claim: Path) -> None:
    claim.unlink()
    os.mkfifo(claim)


@pytest.mark.parametrize("change", [_forged, _linked, _pipe, lambda claim: claim.write_bytes(b"[" * 9999), lambda claim: claim.unlink()])
def test_a_claim_that_is_not_as_it_was_written_proves_nothing(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "p"
    meta = claimed(path)
    monkeypatch.setattr(claims, "_of_this_process", {})
    change(state / "recordings" / meta.id)
    assert not claims.proven(Folder.open(path), meta.id)


@pytest.mark.parametrize("identity", ["", "../../etc/passwd", "AB" * 16, "ab" * 17, "ab" * 15 + "a\n"])
def test_an_id_that_is_none_is_looked_up_nowhere(tmp_path: Path, identity: str) -> None:
    assert not claims.proven(Folder.open(tmp_path), identity)
    claims.withdraw(identity)


def test_claims_are_their_owners_alone(tmp_path: Path, state: Path) -> None:
    meta = claimed(tmp_path / "p")
    assert [oct(path.stat().st_mode & 0o777) for path in (state, state / "recordings", state / "recordings" / meta.id)] == [
        "0o700", "0o700", "0o600",
    ]  # fmt: skip


def test_a_profile_into_which_others_can_write_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "p"
    meta = claimed(path)
    path.chmod(0o770)
    assert not claims.proven(Folder.open(path), meta.id)


def test_a_source_that_was_changed_while_the_program_ran_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "p"
    meta = claimed(path)
    profile = aiflame.open(ended_profile(path, ProcessFiles(), meta=meta)).store
    claims.claim(Folder.open(path), meta.id)
    assert isinstance(profile, Profile)
    outside = outside_of(profile)
    assert outside.allowed
    old, new, generated = tmp_path / "home/old.py", tmp_path / "home/new.py", tmp_path / "cache/generated.py"
    for file, when in ((old, outside.began - 9), (new, outside.began + 1e-4), (generated, outside.began)):
        file.parent.mkdir(exist_ok=True)
        file.write_text("x = 1\n")
        os.utime(file, (when, when))
    from dataclasses import replace

    strict = replace(outside, generated=(generated.parent,))
    assert strict.source(old, 0).content == b"x = 1\n"
    assert strict.source(new, 0).changed
    assert strict.source(generated, 0).content
    link = tmp_path / "home/link.py"
    link.symlink_to("/etc/hostname")
    assert strict.source(link, 0).content is None
    assert NOTHING.source(old, 0).content is None


def test_a_perf_map_that_is_a_link_or_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    from profiles import this_machine

    real, link = tmp_path / "real.map", tmp_path / "perf-1.map"
    real.write_text("1 1 x\n")
    link.symlink_to(real)
    assert this_machine().written_by_process([link], 1.0, 100) is None
    assert this_machine().written_by_process([real], 1.0, 100) == b"1 1 x\n"
    assert this_machine().written_by_process([real], 1.0, 3) is None
    assert this_machine().written_by_process([real], 0, 100) is None
    assert this_machine().written_by_process([real], real.stat().st_mtime + 5, 100) is None
    if os.geteuid() == 0:
        os.chown(real, 1234, -1)
        assert this_machine().written_by_process([real], 1.0, 100) is None


def test_tables_of_code_are_the_same_with_and_without_the_machine(tmp_path: Path) -> None:
    stranger = Meta(version="1", command=("p",), complete=True, id="cd" * 16)
    cubin = (DATA / "lines.cubin").read_bytes()
    frames = []
    for name, meta in (("own", None), ("strange", stranger)):
        path = tmp_path / name
        path = recorded(path, sampled_kernel(), claimed(path, "ef" * 16) if meta is None else meta, cubin)
        frames.append(aiflame.open(path).table("gpu_lines").sort(pl.all()))
    assert frames[0].equals(frames[1])
