"""`meta.json` and the control page, by which the recorder and its processes inform each other and people."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, Meta, Recorder
from aiflame.profile.schema.control_schema import ControlState, StopReason


def test_meta_comes_back_as_written(tmp_path):
    meta = Meta(
        version="1.2",
        command=("python", "a.py", "\udcff"),
        host=Host.here(),
        recorder=Recorder.this(),
        options={"cpu_rate": 199, "wall": False, "name": "x", "share": 0.5, "limit": None},
        started=Clocks.now(),
        ended=Clocks.now(),
        exit_status=-9,
        degraded=("one", "two"),
        complete=True,
    )
    meta.write(Folder.open(tmp_path))
    assert Meta.read(Folder.open(tmp_path)) == meta


def test_unknown_keys_are_ignored_and_missing_ones_have_defaults(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"version": "9", "colour": "blue", "host": {"cores": 8, "moon": 1}}))
    assert Meta.read(Folder.open(tmp_path)) == Meta(version="9", host=Host(cores=8))


@pytest.mark.parametrize("value", [{"exit_status": 1 << 80}, {"command": [1]}, {"host": 3}, {"options": {"a": []}}, {"complete": 1}])
def test_a_value_of_another_kind_is_damage(tmp_path, value):
    (tmp_path / "meta.json").write_text(json.dumps(value))
    assert Meta.read(Folder.open(tmp_path)).degraded == ("meta.json is missing or damaged: command, host and options are unknown",)


def test_a_note_is_kept_once():
    assert Meta().with_notes("a", "b", "a").with_notes("b", "c").degraded == ("a", "b", "c")


def test_the_host_is_described():
    host = Host.here()
    assert host.cores > 0
    assert host.name
    assert host.kernel
    assert host.boot_id


def test_a_recorder_is_alive_until_it_ends():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert Recorder(process.pid).alive()
    process.communicate(b"\n")
    assert not Recorder(process.pid).alive()


def test_the_control_page_is_shared(tmp_path):
    with ControlPage.create(Folder.open(tmp_path), max_bytes=1 << 40, cpu_rate=199, wall_rate=7, features=31, recorder_pid=5) as page:
        with ControlPage.open(Folder.open(tmp_path)) as other:
            other.state = ControlState.PAUSED
        assert page.state == ControlState.PAUSED
        assert (page.max_bytes, page.cpu_rate, page.wall_rate, page.features, page.recorder_pid) == (1 << 40, 199, 7, 31, 5)
        assert (page.used_bytes, page.stop_reason, page.stop_note()) == (0, StopReason.NONE, None)


@pytest.mark.parametrize(
    ("reason", "number", "note"),
    [
        (1, 0, "the size limit of 1 MB was reached (--max-size)"),
        (2, 28, "no space left on the device"),
        (3, 5, "Input/output error"),
        (99, 0xFFFFFFFF, "Unknown error"),
    ],
)
def test_why_recording_stopped_is_one_line(tmp_path, reason, number, note):
    ControlPage.create(Folder.open(tmp_path), max_bytes=1_000_000).close()
    data = bytearray((tmp_path / "control").read_bytes())
    data[32:40] = reason.to_bytes(4, "little") + number.to_bytes(4, "little")
    (tmp_path / "control").write_bytes(data)
    with ControlPage.open(Folder.open(tmp_path)) as page:
        assert (page.stop_note() or "").startswith(f"recording stopped early: {note}")


@pytest.mark.parametrize("content", [None, b"", bytes(100), bytes(4096), b"AIFLAMEC\2" + bytes(4096)])
def test_a_damaged_control_page_is_an_error(tmp_path, content):
    if content is not None:
        (tmp_path / "control").write_bytes(content)
    with pytest.raises(AiflameError):
        ControlPage.open(Folder.open(tmp_path))


def test_the_recorders_part_needs_the_standard_library_alone():
    script = "import sys, aiflame.profile, aiflame.profile.schema.all_tables; print('polars' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False False\n"
