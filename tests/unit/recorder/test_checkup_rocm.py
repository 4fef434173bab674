"""The checkup of ROCm, on directory trees that stand for machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiflame.recorder.checkup_cuda import Machine
from aiflame.recorder.checkup_rocm import SAMPLING, rocm_findings
from aiflame.recorder.finding import Finding, State


def machine(root: Path, *files: str, simds: tuple[int, ...] = (0, 320), sampling: str | None = None) -> Machine:
    for node, count in enumerate(simds):
        place = root / f"sys/class/kfd/kfd/topology/nodes/{node}"
        place.mkdir(parents=True)
        (place / "properties").write_text(f"cpu_cores_count 8\nsimd_count {count}\nmem_banks_count 1\n")
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch(0o755)
    return Machine(root, {"PATH": "", **({SAMPLING: sampling} if sampling else {})}, (root / "packages",))


def by_subject(machine: Machine) -> dict[str, Finding]:
    return {one.subject: one for one in rocm_findings(machine)}


ALL = ("dev/kfd", "opt/rocm/lib/librocprofiler-sdk.so", "opt/rocm/lib/llvm/bin/llvm-objdump")


def test_without_a_gpu_of_amd_nothing_is_said(tmp_path: Path) -> None:
    assert rocm_findings(machine(tmp_path, *ALL, simds=(0,))) == []


def test_where_all_is_there_all_works(tmp_path: Path) -> None:
    findings = by_subject(machine(tmp_path, *ALL, sampling="ON"))
    assert [one.state for one in findings.values()] == [State.WORKS] * 4
    assert findings["AMD GPU"].text == "1 GPU of AMD"


@pytest.mark.parametrize(
    ("missing", "subject", "mend"),
    [
        ("dev/kfd", "AMD GPU", "--device /dev/kfd"),
        ("opt/rocm/lib/librocprofiler-sdk.so", "AMD kernels", "rocprofiler-sdk"),
        ("opt/rocm/lib/llvm/bin/llvm-objdump", "AMD instructions", "rocm-llvm"),
    ],
)
def test_each_thing_that_is_missing_has_its_cure(tmp_path: Path, missing: str, subject: str, mend: str) -> None:
    findings = by_subject(machine(tmp_path, *(file for file in ALL if file != missing), sampling="on"))
    assert {name for name, one in findings.items() if one.state is not State.WORKS} == {subject}
    assert mend in findings[subject].mend


@pytest.mark.parametrize("value", [None, "off", "0"])
def test_sampling_is_the_users_own_decision(tmp_path: Path, value: str | None) -> None:
    stalls = by_subject(machine(tmp_path, *ALL, sampling=value))["AMD stalls"]
    assert stalls.state is State.LIMITED
    assert "may hang the machine" in stalls.text


def test_an_sdk_in_a_package_of_python_counts(tmp_path: Path) -> None:
    findings = by_subject(machine(tmp_path, "dev/kfd", "packages/_rocm_sdk_core/lib/librocprofiler-sdk.so.1"))
    assert findings["AMD kernels"].state is State.WORKS


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every device")
def test_a_user_without_permission_is_told_the_group(tmp_path: Path) -> None:
    here = machine(tmp_path, *ALL)
    (tmp_path / "dev/kfd").chmod(0)
    assert "usermod" in by_subject(here)["AMD GPU"].mend
