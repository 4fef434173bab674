"""`aiflame doctor --hardware-report`: a file of counts and versions that names no host, no user, no path and no code of a program."""

from __future__ import annotations

import getpass
import json
import re
import socket
from pathlib import Path

import pytest
from calling import run_aiflame
from sampled_kernels import Sampled, profile

from aiflame.analyze.device.hardware_facts import hardware_facts
from aiflame.cli import doctor
from aiflame.cli.support.hardware_report import without_names
from aiflame.profile.tables.store import Profile
from aiflame.recorder.hardware import drivers, gpus

SECRET = "kernel_of_a_secret_model"
CHAIN = [("", "/home/me/secret.py", 7)]


@pytest.fixture
def recorded(tmp_path: Path) -> Profile:
    code = [(0, "FFMA", CHAIN, {"wait": 5, "wait_not_issued": 3}), (16, "", CHAIN, {"selected": 4}), (32, "EXIT", (), {"wait": 1})]
    return profile(tmp_path / "p.aiflame", Sampled(SECRET, code, launches=3), Sampled("other", launches=2, each_ns=7))


def test_the_counts_are_those_of_the_profile(recorded: Profile) -> None:
    facts = hardware_facts(recorded)
    (device,) = facts["devices"]
    assert (device["api"], device["kernels"], device["functions"], device["backwards"]) == ("CUDA", 5, 2, 0)
    assert (device["gpu_time_ns"], device["shortest_ns"], device["longest_ns"]) == (3_000_014, 7, 1_000_000)
    stalls = facts["stalls"]
    assert sum(stalls["by_reason"].values()) == 5 + 3 + 4 + 1
    assert (stalls["functions"], stalls["instructions"]) == (1, 3)
    assert (stalls["instructions_with_text"], stalls["instructions_with_line"]) == (2, 2)


def test_the_file_measures_the_demo_and_names_nobody(recorded: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_SECONDS", 0.3)
    file = tmp_path / "hardware.json"
    file.write_text("an earlier report")
    answer = run_aiflame("doctor", "--hardware-report", str(file), str(recorded.path))
    assert answer.status == 0, answer.err
    assert answer.err.splitlines()[-1] == f"Written: {file}. Please look through it, then attach it to an issue."
    text = file.read_text()
    facts = json.loads(text)
    assert facts["schema"] == "aiflame.hardware/1"
    measured = {one["device"]: one for one in facts["measured"]}
    assert measured["cpu"]["steps_alone"] > 0 and measured["cpu"]["steps_recorded"] > 0
    assert measured["cpu"]["recorded"]["cpu_samples"] > 0
    assert measured["a recorded program"].keys() == {"device", "recorded"}
    assert measured["a recorded program"]["recorded"]["devices"][0]["kernels"] == 5
    assert not re.search(r"(?<![\w.])/\w", text), "a path"
    for name in (SECRET, "secret.py", socket.gethostname(), str(tmp_path), getpass.getuser() if getpass.getuser() != "root" else SECRET):
        assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text), name


def test_paths_and_names_are_taken_out_of_every_text() -> None:
    document = {"a": ["cannot open /home/me/.cache/x y: see /opt/rocm/, ~/b or host7.example.org"], "n": 3, "t": ("me", "mean")}
    assert without_names(document, ["host7.example.org", "host7", "me"]) == {
        "a": ["cannot open x y: see rocm, b or NAME"],
        "n": 3,
        "t": ["NAME", "mean"],
    }


def test_gpus_are_read_from_the_bus(tmp_path: Path) -> None:
    for number, (kind, vendor, model, driver) in enumerate(
        [
            ("0x030000", "0x8086", "0xe20b", "xe"),
            ("0x120000", "0x1002", "0x74a1", "amdgpu"),
            ("0x030200", "0x10de", "0x2335", ""),
            ("0x020000", "0x8086", "0x1", ""),
        ]
    ):
        device = tmp_path / "devices" / f"0000:0{number}:00.0"
        device.mkdir(parents=True)
        for name, value in (("class", kind), ("vendor", vendor), ("device", model), ("revision", "0x01")):
            (device / name).write_text(f"{value}\n")
        if driver:
            (tmp_path / "drivers" / driver).mkdir(parents=True)
            (device / "driver").symlink_to(tmp_path / "drivers" / driver)
    assert gpus(tmp_path / "devices") == [
        {"vendor": "Intel", "ids": "0x8086:0xe20b revision 0x01", "driver": "xe"},
        {"vendor": "AMD", "ids": "0x1002:0x74a1 revision 0x01", "driver": "amdgpu"},
        {"vendor": "NVIDIA", "ids": "0x10de:0x2335 revision 0x01", "driver": ""},
    ]
    (tmp_path / "modules/nvidia").mkdir(parents=True)
    (tmp_path / "modules/nvidia/version").write_text("580.95.05\n")
    (tmp_path / "modules/xe").mkdir()
    assert drivers(tmp_path / "modules") == {"nvidia": "580.95.05", "xe": ""}


def test_what_cannot_be_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    answer = run_aiflame("doctor", str(tmp_path / "p.aiflame"))
    assert (answer.status, answer.err) == (1, "aiflame: a PROFILE is for --hardware-report FILE\n")
    answer = run_aiflame("doctor", "--hardware-report", str(tmp_path / "none" / "file.json"))
    assert answer.status == 1 and answer.err.splitlines() == [
        f"aiflame: cannot write {tmp_path / 'none/file.json'}: No such file or directory"
    ]
    (tmp_path / "file.json").write_text("an earlier report")
    answer = run_aiflame("doctor", "--hardware-report", str(tmp_path / "file.json"), str(tmp_path / "missing.aiflame"))
    assert (tmp_path / "file.json").read_text() == "an earlier report"
    assert answer.status == 1 and "missing.aiflame" in answer.err.splitlines()[-1] and len(answer.err.splitlines()) == 1
