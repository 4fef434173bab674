"""Sealing: the spool of an ended recording becomes Parquet, whatever happens on the way."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from spool_files import ProcessFiles, busy_process, ended_profile

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Host, Meta, Recorder
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.all_tables import HEADER_BYTES
from aiflame.profile.schema.control_schema import ControlState
from aiflame.profile.sealing.seal import seal


def contents(path: Path) -> dict[str, list[dict[str, object]]]:
    profile = open_profile(path)
    return {name: profile.table(name).to_dicts() for name in profile.names()}


def test_tables_get_a_process_column_and_the_spool_goes(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", busy_process(pid=7, start_ns=900), busy_process(pid=8, start_ns=20))
    report = seal(Folder.open(path))
    profile = open_profile(path)
    assert profile.table("processes").select("process", "id", "pid", "start_ns").rows() == [(0, 1, 8, 20), (1, 1, 7, 900)]
    assert profile.table("cpu_samples").group_by("process").agg(pl.col("id").max()).sort("process").rows() == [(0, 50), (1, 50)]
    assert profile.table("cpu_samples").columns[:3] == ["process", "id", "thread"]
    assert profile.table("kernel_shapes")["name"].to_list() == ["gemm", "gemm"]
    assert profile.table("kernels").select("shape", "correlation").rows() == [(1, 7), (1, 7)]
    assert profile.table("modules")["build_id"].to_list() == [b"\1\2\3\4"] * 2
    assert (report.processes, report.rows["cpu_samples"], report.notes) == (2, 100, ())
    assert sorted(entry.name for entry in path.iterdir()) == ["meta.json", "tables"]


def test_any_parquet_reader_can_read_a_sealed_table(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", busy_process())
    seal(Folder.open(path))
    assert len(pl.read_parquet(path / "tables/cpu_samples/*.parquet")) == 50


def test_a_recording_in_which_nothing_ran_seals_to_nothing(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame")
    (path / "spool/12.34").mkdir()
    (path / "spool/stray").touch()
    assert seal(Folder.open(path)).processes == 0
    assert open_profile(path).table("processes").is_empty()


def test_more_processes_than_files_may_be_open(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", *(ProcessFiles(pid=pid, start_ns=pid, command="make") for pid in range(1, 201)))
    script = f"""
import resource
from aiflame.profile.folder.door import Folder
from aiflame.profile.sealing.seal import seal
import polars
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
seal(Folder.open({str(path)!r}))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert open_profile(path).table("processes")["command"].to_list() == ["make"] * 200


def test_sealing_twice_changes_nothing(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", busy_process())
    seal(Folder.open(path))
    before = contents(path)
    assert seal(Folder.open(path)).rows == {}
    assert contents(path) == before


def test_progress_goes_from_nothing_to_all(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", *(busy_process(pid=pid, start_ns=pid) for pid in range(1, 5)))
    shares: list[float] = []
    seal(Folder.open(path), shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_damage_and_an_early_stop_are_in_the_notes(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", busy_process())
    table = path / "spool/100.1000/cpu_samples.table"
    data = bytearray(table.read_bytes())
    data[HEADER_BYTES + 10] ^= 1
    table.write_bytes(data)
    control = bytearray((path / "control").read_bytes())
    control[16:24] = (50_000_000).to_bytes(8, "little")
    control[32] = 1
    (path / "control").write_bytes(control)
    assert seal(Folder.open(path)).notes == ("1 damaged records of cpu_samples left out",)
    assert open_profile(path).notes() == [
        "recording stopped early: the size limit of 50 MB was reached (--max-size)",
        "1 damaged records of cpu_samples left out",
        "something was not possible",
    ]


KILLED_AT = """
import os, signal, sys
from aiflame.profile.folder.door import Folder
from aiflame.profile.sealing.seal import seal
profile, left = sys.argv[1], int(sys.argv[2])
def watch(event, arguments):
    global left
    changes = event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir") or event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if changes and profile in os.fsdecode(arguments[0] if isinstance(arguments[0], (str, bytes)) else str(arguments[0])) or \
            event in ("os.remove", "os.rmdir") and len(arguments) > 1 and arguments[1] != -1:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
seal(Folder.open(profile))
"""


def test_a_sealer_killed_at_any_step_leaves_a_profile_that_seals_again(tmp_path):
    processes = [ProcessFiles(pid=1, start_ns=1), ProcessFiles(pid=2, start_ns=2)]
    for files in processes:
        files.add("notes", text=f"from {files.pid}")
    expected = contents(ended_profile(tmp_path / "whole.aiflame", *processes))
    steps = 0
    while True:
        steps += 1
        path = ended_profile(tmp_path / f"{steps}.aiflame", *processes)
        killed = subprocess.run([sys.executable, "-c", KILLED_AT, str(path), str(steps)], check=False).returncode
        assert killed in (0, -9)
        if steps % 4 == 0:  # now and then a second sealer is killed as well
            subprocess.run([sys.executable, "-c", KILLED_AT, str(path), str(steps // 4)], check=False)
        assert contents(path) == expected
        assert not (path / "spool").exists()
        assert not (path / "tables.partial").exists()
        if killed == 0:
            break
    assert steps > 12


def test_two_sealers_at_once_make_one_profile(tmp_path):
    path = ended_profile(tmp_path / "a.aiflame", *(busy_process(pid=pid, start_ns=pid, samples=2000) for pid in range(1, 9)))
    errors: list[BaseException] = []

    def one() -> None:
        try:
            seal(Folder.open(path))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(3)]
    imports = "from aiflame.profile.folder.door import Folder; from aiflame.profile.sealing.seal import seal"
    other = subprocess.Popen([sys.executable, "-c", f"{imports}; seal(Folder.open({str(path)!r}))"])
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other.wait() == 0
    assert errors == []
    assert len(open_profile(path).table("cpu_samples")) == 8 * 2000
    assert not (path / "spool").exists()


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def recording_by(path: Path, recorder: Recorder, host: Host) -> Path:
    path = ended_profile(path, busy_process(), meta=Meta(host=host, recorder=recorder))
    ControlPage.create(Folder.open(path), recorder_pid=recorder.pid).close()
    return path


def test_a_live_recording_is_left_alone_until_its_recorder_is_gone(tmp_path, sleeper):
    ticks = Recorder.this().start_ticks
    assert ticks > 0
    recorder = Recorder(sleeper.pid)
    path = recording_by(tmp_path / "a.aiflame", recorder, Host.here())
    before = sorted(path.rglob("*"))
    with pytest.raises(AiflameError, match="is still being recorded"):
        seal(Folder.open(path))
    now = open_profile(path)
    assert len(now.table("cpu_samples")) == 50
    assert now.notes()[0] == now.unfinished()[0]
    assert "a.aiflame is still being recorded: this is its state at" in now.notes()[0]
    assert sorted(path.rglob("*")) == before
    sleeper.kill()
    sleeper.wait()
    ended = open_profile(path)
    assert len(ended.table("cpu_samples")) == 50
    assert ended.unfinished() == []
    assert not (path / "spool").exists()


def test_showing_a_live_recording_leaves_nothing_behind(tmp_path, sleeper, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = recording_by(tmp_path / "a.aiflame", Recorder(sleeper.pid), Host.here())
    now = open_profile(path)
    assert len(list((tmp_path / "cache/aiflame/profiles").iterdir())) == 1
    assert len(now.table("cpu_samples")) == 50
    del now
    assert list((tmp_path / "cache/aiflame/profiles").iterdir()) == []


def test_a_damaged_control_page_does_not_open_a_live_recording_to_sealers(tmp_path, sleeper):
    path = recording_by(tmp_path / "a.aiflame", Recorder(sleeper.pid), Host.here())
    (path / "control").write_bytes(bytes(4096))
    with pytest.raises(AiflameError, match="still being recorded"):
        seal(Folder.open(path))


def test_a_recorder_that_said_stop_may_be_alive(tmp_path, sleeper):
    path = recording_by(tmp_path / "a.aiflame", Recorder(sleeper.pid), Host.here())
    with ControlPage.open(Folder.open(path)) as page:
        page.state = ControlState.STOPPED
    assert len(open_profile(path).table("cpu_samples")) == 50


def test_another_process_with_the_recorders_number_is_not_the_recorder(tmp_path, sleeper):
    path = recording_by(tmp_path / "a.aiflame", Recorder(sleeper.pid, start_ticks=1), Host.here())
    assert len(open_profile(path).table("cpu_samples")) == 50


def test_a_recording_on_another_host_is_left_alone_while_it_changes(tmp_path):
    path = recording_by(tmp_path / "a.aiflame", Recorder(1 << 22), Host(name="elsewhere", boot_id="another"))
    with pytest.raises(AiflameError, match="may still be being recorded on elsewhere"):
        seal(Folder.open(path))
    for entry in [path, *path.rglob("*")]:
        os.utime(entry, (1, 1))
    assert seal(Folder.open(path)).processes == 1


def test_sealing_stops_processes_that_outlived_the_recorder(tmp_path):
    path = recording_by(tmp_path / "a.aiflame", Recorder(0), Host.here())
    with ControlPage.open(Folder.open(path)) as page:
        seal(Folder.open(path))
        assert page.state == ControlState.STOPPED


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    mount = tmp_path / "small"
    mount.mkdir()
    mounting = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2M", "tmpfs", str(mount)], capture_output=True, text=True, check=False)
    if mounting.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounting.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk_while_sealing_is_one_error_and_keeps_the_spool(small_disk):
    path = ended_profile(small_disk / "a.aiflame", busy_process())
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(AiflameError, match=r"no space left to seal .*: nothing is lost; free about"):
        open_profile(path)
    assert (path / "spool/100.1000/cpu_samples.table").exists()
    assert not (path / "tables.partial").exists()
    filler.unlink()
    assert len(open_profile(path).table("cpu_samples")) == 50
