"""GPU profiles with something missing, damaged or odd, opened where there is no GPU: every command shows the rest, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from profiles import Row, ran, sealed
from sampled_kernels import CODE, Sampled, line, profile
from small_program import SYMBOLS

from aiflame.attribute.trees.build import tree
from aiflame.cli.commands import run as run_command
from aiflame.cli.main import guarded
from aiflame.profile.folder.meta import Meta
from aiflame.resolve.device.gpu_code import write_gpu_tables

LONG = "k" * 10_000
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in the profile's folder, where no tool of a toolkit is found: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PATH", "/nonexistent")

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = guarded(run_command, list(arguments))
        except SystemExit as end:
            status = int(end.code or 0)
        return status, *capsys.readouterr()

    return run


def recorded(folder: Path, *kernels: Sampled) -> Path:
    stored = profile(folder / "run.aiflame", *kernels, sources={CODE: "x\n" * 9}, meta=Meta())
    stored.write_table("symbols", pl.DataFrame(SYMBOLS))  # resolved: nothing is looked up
    return stored.path


def gemm(name: str = "gemm", sass: str = "LDG.E R4, [R2.64]") -> Sampled:
    return Sampled(name, [(0x10, sass, line(4), {"long_scoreboard": 6}), (0x20, sass, line(5), {"wait": 4})])


def test_a_name_of_ten_thousand_characters_breaks_no_view(tmp_path: Path, call: Call) -> None:
    recorded(tmp_path, gemm(LONG, "MOV " + "R" * 10_000))
    for arguments in (("top",), ("top", "--metric", "gpu-stalls"), ("annotate", "kkk"), ("annotate", "--sass", LONG)):
        status, out, err = call(*arguments)
        assert (status, err) == (0, "")
        assert "kkkkkkkkkk" in out
        assert max(map(len, out.splitlines())) <= 100
    assert call("flame", "--metric", "gpu-stalls")[0] == 0
    assert call("flame", "--inverted", "-o", "inverted.svg")[0] == 0
    assert json.loads(call("annotate", "--json", "kkk")[1])["kernel"]["name"] == LONG
    assert LONG in call("export")[1]


def test_damaged_samples_leave_the_times_of_kernels(tmp_path: Path, call: Call) -> None:
    path = recorded(tmp_path, gemm())
    (file,) = (path / "tables/gpu_samples").iterdir()
    file.write_bytes(b"PAR1" + bytes(100))
    assert "gemm" in call("top")[1]
    assert call("flame")[0] == 0
    for asks in (("top", "--metric", "gpu-stalls"), ("top", "--by", "stall"), ("flame", "--detail", "line"), ("annotate", "gemm")):
        status, _, err = call(*asks)
        assert status == 1
        assert "gpu_samples" in err
        assert "damaged" in err
        assert err.count("\n") == 1


def test_without_device_code_and_disassembler_the_kernel_and_its_reasons_are_shown(tmp_path: Path, call: Call) -> None:
    path = recorded(tmp_path, gemm(sass=""))
    assert not (path / "cubins").exists()
    assert write_gpu_tables(profile(tmp_path / "again.aiflame", gemm()), lambda _: None, nvdisasm=[]), "no note names the missing part"
    status, out, _ = call("annotate", "run.aiflame", "gemm")
    assert status == 0
    assert "long_scoreboard" in out
    assert "no SASS" in out


def test_a_kernel_without_a_line_table_has_its_reasons_and_offsets(tmp_path: Path, call: Call) -> None:
    recorded(tmp_path, Sampled("gemm", [(0x10, "EXIT", (), {"drain": 3})]))
    assert call("export", "--metric", "gpu-stalls")[1].splitlines()[0].endswith(";gemm_[G];EXIT_[g];drain_[g];+0x10_[g] 3")
    status, out, _ = call("annotate", "gemm")
    assert status == 0
    assert "no source lines" in out


def test_a_launch_that_never_completed_takes_no_time_and_no_place(tmp_path: Path) -> None:
    launches: list[Row] = [{"thread": 1, "stack": 0, "api": 2, "correlation": number} for number in (1, 2)]
    ended = {"name": "gemm", "device": "H100", "api": 2, "correlation": 1, "start_ns": 10, "end_ns": 40}
    of = tree(sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, launches=launches, **ran(ended)), "gpu-time")
    assert of.total("gpu-time") == 30
    assert of.total("launches") == 1


def test_a_kernel_whose_launch_is_lost_says_so(tmp_path: Path) -> None:
    ended = {"name": "gemm", "device": "H100", "api": 2, "correlation": 9, "start_ns": 10, "end_ns": 40}
    of = tree(sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, **ran(ended)), "gpu-time")
    assert "[unattributed: no launch]" in of.frames["name"]
    assert of.total("gpu-time") == 30
