"""EU stall samples join the functions of the code that lay at their addresses when they were taken."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from stalled_gpu import BASE, DEVICE, Program, Stalls, recording, stretch

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import SUFFIX, Block
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.kinds import UNKNOWN_CODE
from aiflame.profile.sealing.seal import seal
from aiflame.profile.tables.interface import OpenedProfile

MATMUL, SCALE = {"matmul": (BASE, 0x740)}, {"scale": (BASE, 0x2C0)}
BOTH = {"matmul": (BASE, 0x740), "scale": (BASE + 0x800, 0x2C0)}

Samples = list[tuple[int, str, int, str, int]]
"""pid, function, offset, reason, count"""


def samples(profile: OpenedProfile) -> Samples:
    rows = profile.table("gpu_samples")
    for table, key, columns in (("gpu_functions", "function", ["name"]), ("stall_reasons", "reason", ["name"])):
        of = profile.table(table).select("process", pl.col("id").alias(key), *(pl.col(name).alias(f"{key}_{name}") for name in columns))
        rows = rows.join(of, on=["process", key], how="left")
    pids = profile.table("processes").select("process", "pid")
    rows = rows.join(pids, on="process").group_by("pid", "function_name", "offset", "reason_name").agg(pl.col("count").sum())
    return sorted((pid, name, at, reason.removeprefix("eustall_"), count) for pid, name, at, reason, count in rows.iter_rows())


def sealed(path: Path, programs: list[Program], stretches: list[Block], **more: str) -> OpenedProfile:
    return open_profile(recording(path / "p", programs, stretches, **more))


def test_functions_and_offsets(tmp_path: Path) -> None:
    """The GPU reports the low 32 bits of an address. A function ends where its size ends."""
    program = Program()
    crc = program.load(BOTH, 10)
    stalls: Stalls = {
        (BASE, "eustall_active"): 5,
        (BASE + 0x738, "eustall_sbid"): 2,
        (BASE + 0x738, "eustall_tdr"): 1,
        (BASE + 0x800, "eustall_sbid"): 4,
        (BASE + 0x740, "eustall_sbid"): 8,
    }
    profile = sealed(tmp_path, [program], [stretch(100, 300, stalls)])
    assert samples(profile) == [
        (100, UNKNOWN_CODE, 0, "sbid", 8),
        (100, "matmul", 0, "active", 5),
        (100, "matmul", 0x738, "sbid", 2),
        (100, "matmul", 0x738, "tdr", 1),
        (100, "scale", 0, "sbid", 4),
    ]
    assert set(profile.table("gpu_functions").select("cubin", "name").rows()) == {(crc, "matmul"), (crc, "scale"), (0, UNKNOWN_CODE)}
    (window,) = profile.table("gpu_windows").drop("id", "process").rows()
    assert window == (DEVICE, 100_000_000, 300_000_000, 20, 0, 0, 0, 0)
    assert not [note for note in profile.notes() if "stall" in note]


def test_addresses_come_again(tmp_path: Path) -> None:
    """In each stretch the code counts that lay there; shortly after its end, the last that did."""
    program = Program()
    program.load(MATMUL, 10, 150)
    program.load(SCALE, 400, 500)
    stretches = [
        stretch(begin, begin + 90, {(BASE + 8, "eustall_sbid"): count}) for begin, count in ((50, 1), (200, 2), (405, 4), (3000, 8))
    ]
    profile = sealed(tmp_path, [program], stretches)
    assert samples(profile) == [(100, UNKNOWN_CODE, 0, "sbid", 8), (100, "matmul", 8, "sbid", 3), (100, "scale", 8, "sbid", 4)]


def test_code_that_was_replaced(tmp_path: Path) -> None:
    """OpenCL does not say when code is removed: it ends when other code has one of its addresses."""
    program = Program()
    program.load(MATMUL, 10)
    program.load({"other": (BASE + 0x10000, 0x100)}, 100)
    program.load({"scale": (BASE + 0x700, 0x100)}, 400)
    stretches = [stretch(begin, begin + 90, {(BASE + 0x708, "eustall_sbid"): count}) for begin, count in ((50, 1), (200, 2), (450, 4))]
    assert samples(sealed(tmp_path, [program], stretches)) == [(100, "matmul", 0x708, "sbid", 3), (100, "scale", 8, "sbid", 4)]


def test_code_that_followed_at_the_same_address_shares_by_the_time_that_its_kernels_ran(tmp_path: Path) -> None:
    program = Program()
    program.load(MATMUL, 10, 150)
    program.run("matmul", 110, 140)
    program.load(SCALE, 160)
    program.run("scale", 180, 190)
    profile = sealed(tmp_path, [program], [stretch(100, 200, {(BASE + 8 * at, "eustall_sbid"): 3 for at in range(20)})])
    by_function = {name: sum(row[-1] for row in samples(profile) if row[1] == name) for name in ("matmul", "scale")}
    assert by_function == {"matmul": 45, "scale": 15}


def test_processes_share_an_address_by_the_time_that_their_kernels_ran(tmp_path: Path) -> None:
    """For 30, 10 and 0 ms of it; only executions within the stretch count. All samples are there; a note says that they were divided."""
    one, two, three = Program(100), Program(200, 2), Program(300, 3)
    for program in (one, two, three):
        program.load(MATMUL, 10)
    one.run("matmul", 90, 130)
    two.run("matmul", 140, 150)
    three.run("matmul", 250, 300)
    stalls = {(BASE + 8 * at, reason): 1 + at % 3 for at in range(100) for reason in ("eustall_sbid", "eustall_active")}
    profile = sealed(tmp_path, [one, two, three], [stretch(100, 200, stalls)])
    by_process = {pid: sum(row[-1] for row in samples(profile) if row[0] == pid) for pid in (100, 200, 300)}
    whole = sum(stalls.values())
    assert by_process == {100: pytest.approx(0.75 * whole, abs=1), 200: pytest.approx(0.25 * whole, abs=1), 300: 0}
    assert sum(by_process.values()) == whole
    assert f"{whole:,} stall samples of the Intel GPU 0000:03:00.0 are at addresses where several processes had code" in "".join(
        profile.notes()
    )


def test_processes_of_other_code_do_not_share(tmp_path: Path) -> None:
    one, two = Program(100), Program(200, 2)
    one.load(MATMUL, 10)
    two.load({"scale": (BASE + 0x1000, 0x100)}, 10)
    two.run("scale", 100, 200)
    profile = sealed(tmp_path, [one, two], [stretch(100, 200, {(BASE, "eustall_sbid"): 7, (BASE + 0x1008, "eustall_active"): 2})])
    assert samples(profile) == [(100, "matmul", 0, "sbid", 7), (200, "scale", 8, "active", 2)]
    assert not [note for note in profile.notes() if "divided" in note]


def test_dropped_samples_are_of_the_process_that_has_most(tmp_path: Path) -> None:
    one, two = Program(100), Program(200, 2)
    one.load(MATMUL, 10)
    two.load({"scale": (BASE + 0x1000, 0x100)}, 10)
    profile = sealed(tmp_path, [one, two], [stretch(100, 200, {(BASE, "eustall_sbid"): 1, (BASE + 0x1008, "eustall_sbid"): 2}, 9)])
    pids = profile.table("processes").select("process", "pid")
    assert profile.table("gpu_windows").join(pids, on="process").sort("pid").select("pid", "dropped").rows() == [(100, 0), (200, 9)]


def test_another_gpu(tmp_path: Path) -> None:
    """Samples of a GPU on which the recording has no code are counted in a note."""
    program = Program(gpu="0000:4D:00.0")
    program.load(MATMUL, 10)
    profile = sealed(tmp_path, [program], [stretch(100, 200, {(BASE, "eustall_sbid"): 7})])
    assert samples(profile) == []
    assert "7 stall samples of the Intel GPU 0000:03:00.0 were left out: the recording has no code that ran on it" in profile.notes()


@pytest.mark.parametrize("gpu", ["0000:03:00.0", "0000:4d:00.0"])
def test_two_gpus_of_one_name(tmp_path: Path, gpu: str) -> None:
    """OpenCL does not number them."""
    program = Program()
    program.files.add("gpu_devices", device=DEVICE, address="0000:4D:00.0")
    program.load(MATMUL, 10)
    path = recording(tmp_path / "p", [program], [stretch(100, 200, {(BASE, "eustall_sbid"): 7})], gpu)
    assert samples(open_profile(path)) == [(100, "matmul", 0, "sbid", 7)]


def test_a_driver_that_tells_no_address(tmp_path: Path) -> None:
    """The samples of any Intel GPU may be in its code."""
    program = Program(gpu="")
    program.load(MATMUL, 10)
    profile = sealed(tmp_path, [program], [stretch(100, 200, {(BASE, "eustall_sbid"): 7})])
    assert samples(profile) == [(100, "matmul", 0, "sbid", 7)]


def test_beside_the_samples_of_another_vendors_gpu(tmp_path: Path) -> None:
    program = Program()
    files = program.files
    window = files.add("gpu_windows", device="NVIDIA", begin_ns=5, end_ns=10, samples=3)
    function = files.add("gpu_functions", cubin=77, name="gemm")
    reason = files.add("stall_reasons", index=1, name="smsp__pcsamp_warps_issue_stalled_wait")
    files.add("gpu_samples", window=window, function=function, offset=16, reason=reason, count=3)
    program.load(MATMUL, 10)
    profile = sealed(tmp_path, [program], [stretch(100, 200, {(BASE + 16, "eustall_sbid"): 7})])
    assert samples(profile) == [(100, "gemm", 16, "smsp__pcsamp_warps_issue_stalled_wait", 3), (100, "matmul", 16, "sbid", 7)]


def test_damage_loses_no_more_than_what_is_behind_it(tmp_path: Path) -> None:
    program = Program()
    program.load(MATMUL, 10)
    path = recording(tmp_path / "p", [program], [stretch(100 * at, 100 * at + 90, {(BASE, "eustall_sbid"): 1}) for at in range(1, 6)])
    (file,) = (path / FOLDER).glob(f"*{SUFFIX}")
    content = bytearray(file.read_bytes())
    content[-60] ^= 1
    file.write_bytes(content)
    profile = open_profile(path)
    assert samples(profile) == [(100, "matmul", 0, "sbid", 3)]
    assert "stall samples of the Intel GPU 0000:03:00.0: the rest of a damaged file was left out" in profile.notes()


@pytest.mark.parametrize("lost", [1, 40, 47, 48, 60])
def test_a_recorder_that_was_killed(tmp_path: Path, lost: int) -> None:
    """A block is cut off: no damage."""
    program = Program()
    program.load(MATMUL, 10)
    path = recording(tmp_path / "p", [program], [stretch(100 * at, 100 * at + 90, {(BASE, "eustall_sbid"): 1}) for at in range(1, 6)])
    (file,) = (path / FOLDER).glob(f"*{SUFFIX}")
    file.write_bytes(file.read_bytes()[:-lost])
    seal(Folder.open(path))
    profile = open_profile(path)
    assert samples(profile) == [(100, "matmul", 0, "sbid", 4 if lost <= 48 else 3)]
    assert not [note for note in profile.notes() if "stall" in note]


def test_records_of_a_generation_that_is_not_known_stay(tmp_path: Path) -> None:
    path = recording(tmp_path / "p", [Program()], [])
    (path / FOLDER / "0000-03-00.0-0.eustalls-unknown").write_bytes(b"{}\n" + bytes(64))
    profile = open_profile(path)
    assert (path / "unknown_stalls/0000-03-00.0-0.eustalls-unknown").read_bytes() == b"{}\n" + bytes(64)
    assert [note for note in profile.notes() if "unknown generation" in note] and not (path / FOLDER).exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"AIFLAMEI" + b"\xff" * 64, b"no such file"])
def test_a_file_that_is_not_ours(tmp_path: Path, content: bytes) -> None:
    program = Program()
    program.load(MATMUL, 10)
    path = recording(tmp_path / "p", [program], [])
    (file,) = (path / FOLDER).glob(f"*{SUFFIX}")
    file.write_bytes(content)
    profile = open_profile(path)
    assert samples(profile) == []
    assert any("cannot be read" in note for note in profile.notes()) == bool(content)


@pytest.mark.parametrize("end", ["process_ends", "exec"])
def test_the_code_of_a_process_ends_with_it(tmp_path: Path, end: str) -> None:
    """Nobody said that it was unloaded. A program that a process becomes has its pid."""
    first, second = Program(100), Program(100 if end == "exec" else 200, start_ms=300)
    for program, at_ms in ((first, 10), (second, 310)):
        program.load(MATMUL, at_ms)
    if end == "process_ends":
        first.files.add("process_ends", end_ns=290_000_000)
    stretches = [stretch(100, 290, {(BASE, "eustall_sbid"): 4}), stretch(400, 500, {(BASE, "eustall_sbid"): 10})]
    profile = sealed(tmp_path, [first, second], stretches)
    counts = profile.table("gpu_samples").group_by("process").agg(pl.col("count").sum())
    assert dict(counts.rows()) == {0: 4, 1: 10}
    assert not [note for note in profile.notes() if "stall" in note]
