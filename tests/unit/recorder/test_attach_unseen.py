"""Work that is not seen in a program that is attached to."""

from __future__ import annotations

from pathlib import Path

from aiflame.recorder.attach.unseen import unseen_gpus

LIBRARY = "7f00-7f01 r-xp 00000000 08:01 7 /usr/lib/x86_64-linux-gnu/{}\n"
HOW = ": work and stalls of Intel GPUs are recorded only from the start of a program: aiflame record --trace ze -- COMMAND"


def test_intels_drivers(tmp_path: Path) -> None:
    for pid, library in ((10, "libze_intel_gpu.so.1.15.39122"), (20, "intel-opencl/libigdrcl.so"), (30, "libze_loader.so.1")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_text(LIBRARY.format("libc.so.6") + LIBRARY.format(library))
    assert unseen_gpus([10, 20, 30, 40], tmp_path) == [f"processes 10, 20{HOW}"]
    assert unseen_gpus([20], tmp_path) == [f"process 20{HOW}"]
    assert unseen_gpus([30, 40], tmp_path) == []
