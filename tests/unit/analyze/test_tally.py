"""A tally is the exact sum of the rows in a profile's tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from profiles import ran, sealed
from rich.console import Console

from aiflame.analyze.tally import DEVICE, HOST, LAUNCH, TRAFFIC, Section, tally, to_json
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi, SyncKind
from aiflame.profile.tables.store import Profile
from aiflame.render.terminal.tally_table import print_tally

CUDA, MPI, OPENCL = int(GpuApi.CUDA), int(CallBackend.MPI), int(CallBackend.OPENCL)
H2D = int(CopyKind.HOST_TO_DEVICE)


def call(name: int, begin: int, end: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "thread": 1, "begin_ns": begin, "end_ns": end, **more}


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Two processes: MPI calls of known lengths, one of them failed; OpenCL calls; CUDA launches, a wait, kernels and copies."""
    return sealed(
        tmp_path / "p.aiflame",
        processes=[{"pid": 7, "process": 0, "command": "solve\0-n"}, {"pid": 8, "process": 1, "command": "solve\0-n"}],
        threads=[{"process": 0, "tid": 70, "name": "main"}, {"process": 0, "tid": 71, "name": "pump"}, {"process": 1, "tid": 80}],
        call_names=[
            {"process": 0, "backend": MPI, "name": "MPI_Send"},
            {"process": 0, "backend": OPENCL, "name": "clFinish"},
            {"process": 1, "backend": MPI, "name": "MPI_Recv"},
            {"process": 1, "backend": MPI, "name": "MPI_Send"},
        ],
        calls=[
            call(1, 100, 110, bytes=400),
            call(1, 200, 230, bytes=100, failed=1),
            call(2, 300, 500),
            call(1, 100, 220, process=1, bytes=500),
            call(2, 300, 310, process=1, bytes=60),
        ],
        launches=[
            {"process": 0, "thread": 1, "api": CUDA, "correlation": 1, "begin_ns": 0, "end_ns": 5},
            {"process": 0, "thread": 1, "api": CUDA, "correlation": 2, "begin_ns": 5, "end_ns": 9},
            {"process": 0, "thread": 2, "api": CUDA, "correlation": 3, "begin_ns": 9, "end_ns": 109},
        ],
        syncs=[{"process": 0, "api": CUDA, "correlation": 3, "kind": int(SyncKind.CONTEXT), "start_ns": 10, "end_ns": 100}],
        copies=[{"process": 0, "api": CUDA, "device": "G [0]", "kind": H2D, "bytes": 2048, "start_ns": 0, "end_ns": 40}],
        **ran(
            {"name": "gemm", "device": "G [0]", "api": CUDA, "start_ns": 0, "end_ns": 300},
            {"name": "gemm", "device": "G [1]", "api": CUDA, "start_ns": 0, "end_ns": 100},
            {"name": "norm", "device": "G [0]", "api": CUDA, "start_ns": 300, "end_ns": 310},
        ),
    )


def section(sections: list[Section], kind: str, backend: str) -> Section:
    (matching,) = [one for one in sections if (one.kind, one.backend) == (kind, backend)]
    return matching


def rows(of: Section, *columns: str) -> list[tuple[Any, ...]]:
    return of.rows.select(columns).rows()


def test_calls_of_a_backend_are_added_over_processes(profile: Profile) -> None:
    mpi = section(tally(profile), HOST, "MPI")
    assert rows(mpi, "name", "calls", "total", "mean", "min", "max", "failed") == [
        ("MPI_Recv", 1, 120, 120, 120, 120, 0),
        ("MPI_Send", 3, 50, 17, 10, 30, 1),
    ]
    assert (mpi.total, mpi.processes, mpi.threads) == (170, 2, 2)
    assert mpi.rows["share"].to_list() == pytest.approx([120 / 170, 50 / 170])


def test_a_runtime_whose_calls_are_not_traced_has_its_launches_and_waits(profile: Profile) -> None:
    cuda = section(tally(profile), HOST, "CUDA")
    assert rows(cuda, "name", "calls", "total") == [("[wait for a device]", 1, 100), (LAUNCH, 2, 9)]
    assert cuda.threads == 2


def test_calls_that_are_traced_are_not_counted_as_launches_again(tmp_path: Path) -> None:
    traced = sealed(
        tmp_path / "p.aiflame",
        call_names=[{"backend": OPENCL, "name": "clEnqueueNDRangeKernel"}],
        calls=[call(1, 0, 9)],
        launches=[{"thread": 1, "api": int(GpuApi.OPENCL), "correlation": 1, "begin_ns": 0, "end_ns": 9}],
    )
    assert rows(section(tally(traced), HOST, "OpenCL"), "name", "calls") == [("clEnqueueNDRangeKernel", 1)]


def test_the_work_of_devices_is_listed(profile: Profile) -> None:
    cuda = section(tally(profile), DEVICE, "CUDA")
    assert rows(cuda, "name", "calls", "total", "min", "max") == [
        ("gemm", 2, 400, 100, 300),
        ("[copy host→device]", 1, 40, 40, 40),
        ("norm", 1, 10, 10, 10),
    ]
    assert cuda.threads == 2, "devices"


@pytest.mark.parametrize(("address", "devices"), [("0000:43:00.0", 2), ("0000:1b:00.0", 1)])
def test_devices_of_two_processes_may_have_one_name(tmp_path: Path, address: str, devices: int) -> None:
    """Each process sees one device, as number 0."""
    kernels = ran(*({"process": at, "name": "gemm", "device": "G [0]", "api": CUDA, "start_ns": 0, "end_ns": 300} for at in (0, 1)))
    addresses = [{"process": process, "device": "G [0]", "address": of} for process, of in ((0, "0000:1b:00.0"), (1, address))]
    processes = [{"pid": 7, "process": 0}, {"pid": 8, "process": 1}]
    (section,) = tally(sealed(tmp_path / "two.aiflame", processes=processes, **kernels, gpu_devices=addresses))
    assert (section.kind, section.processes, section.threads) == (DEVICE, 2, devices)


def test_bytes_moved_by_copies_and_by_messages(profile: Profile) -> None:
    sections = tally(profile)
    assert rows(section(sections, TRAFFIC, "CUDA"), "name", "calls", "total") == [("[copy host→device]", 1, 2048)]
    assert rows(section(sections, TRAFFIC, "MPI"), "name", "calls", "total", "max", "failed") == [
        ("MPI_Send", 3, 560, 400, 1),
        ("MPI_Recv", 1, 500, 500, 0),
    ]


def test_a_copy_that_was_asked_for_is_moved_once(tmp_path: Path) -> None:
    """Memory that was asked for is not moved at all."""
    traced = sealed(
        tmp_path / "p.aiflame",
        call_names=[{"backend": int(CallBackend.CUDA), "name": name} for name in ("cudaMemcpyAsync", "cudaMalloc")],
        calls=[call(1, 0, 9, bytes=2048), call(2, 10, 19, bytes=1 << 30)],
        copies=[{"api": CUDA, "device": "G [0]", "kind": H2D, "bytes": 2048, "start_ns": 5, "end_ns": 40}],
    )
    sections = tally(traced)
    assert rows(section(sections, TRAFFIC, "CUDA"), "name", "calls", "total") == [("[copy host→device]", 1, 2048)]
    assert rows(section(sections, HOST, "CUDA"), "name", "calls") == [("cudaMalloc", 1), ("cudaMemcpyAsync", 1)]
    assert rows(section(sections, DEVICE, "CUDA"), "name", "calls") == [("[copy host→device]", 1)]


def test_extended_tallies_name_thread_and_device(profile: Profile) -> None:
    sections = tally(profile, extended=True)
    assert rows(section(sections, HOST, "MPI"), "owner", "name", "calls") == [
        ("solve (8), thread (80)", "MPI_Recv", 1),
        ("solve (7), main (70)", "MPI_Send", 2),
        ("solve (8), thread (80)", "MPI_Send", 1),
    ]
    assert rows(section(sections, DEVICE, "CUDA"), "owner", "name", "total")[:2] == [("G [0]", "gemm", 300), ("G [1]", "gemm", 100)]


def test_a_call_that_ends_before_it_begins_took_no_time(tmp_path: Path) -> None:
    damaged = sealed(tmp_path / "p.aiflame", call_names=[{"backend": MPI, "name": "MPI_Wait"}], calls=[call(1, 500, 100)])
    assert rows(section(tally(damaged), HOST, "MPI"), "name", "total") == [("MPI_Wait", 0)]


def test_whatever_damaged_records_say_they_are_added_up(tmp_path: Path) -> None:
    """None takes more than 13 days, none moves more than a PiB."""
    most, latest = 1 << 50, (1 << 64) - 1
    damaged = sealed(
        tmp_path / "p.aiflame",
        call_names=[{"backend": MPI, "name": "MPI_Send"}],
        calls=[call(1, 1, latest, bytes=latest)],
        copies=[{"api": CUDA, "device": "G [0]", "kind": H2D, "bytes": latest, "start_ns": 0, "end_ns": (1 << 63) - 1}],
    )
    sections = tally(damaged)
    assert [rows(section(sections, kind, "MPI"), "total", "mean") for kind in (HOST, TRAFFIC)] == [[(most, most)]] * 2
    assert [rows(section(sections, kind, "CUDA"), "total", "mean") for kind in (DEVICE, TRAFFIC)] == [[(most, most)]] * 2


def test_as_json(profile: Profile) -> None:
    result = run_aiflame("tally", str(profile.path), "--json")
    answer = json.loads(result.out)
    assert answer == to_json(tally(profile))
    assert [(one["kind"], one["backend"]) for one in answer] == [
        (HOST, "CUDA"),
        (HOST, "OpenCL"),
        (HOST, "MPI"),
        (DEVICE, "CUDA"),
        (TRAFFIC, "CUDA"),
        (TRAFFIC, "MPI"),
    ]


@pytest.mark.parametrize("width", [60, 120])
def test_numbers_stay_whole_at_every_width(profile: Profile, width: int) -> None:
    console = Console(width=width, record=True, highlight=False)
    with console.capture() as captured:
        print_tally(tally(profile, extended=True), 1, console)
    text = captured.get()
    assert "MPI calls  170 ns in all, 2 processes, 2 threads" in text
    assert any(line.split()[:5] == ["120", "ns", "70.6%", "1", *(["120"] if width == 120 else ["MPI_Recv"])] for line in text.splitlines())
    assert "2 more (-n shows them)" in text


def test_nothing_to_add_up_is_said(tmp_path: Path) -> None:
    console = Console(width=200)
    with console.capture() as captured:
        print_tally(tally(sealed(tmp_path / "p.aiflame")), 9, console)
    assert "--trace all" in captured.get()
