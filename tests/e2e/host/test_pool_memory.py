"""`aiflame record --gpu-memory` and torch's caching allocator of device memory: a library that reports to c10 as that allocator does,
in a program whose blocks are known."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest
from recording import PYTHON, Recorder, all_findings, under
from torch_programs import needs_torch

from aiflame.analyze.memory.holders import holders
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.memory_categories import NAMES, Category
from aiflame.attribute.memory.moments import Moment

pytestmark = needs_torch

ALLOCATOR = r"""
#include <stdint.h>
typedef struct { int8_t type, index; } Device;
void report(void*, int64_t, uint64_t, uint64_t, Device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void report_refusal(int64_t, uint64_t, uint64_t, Device) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
void change(long address, long bytes, long used, long held, int type, int index) {
  report((void*)address, bytes, used, held, (Device){type, index});
}
void refuse(long bytes, long used, long held, int type, int index) { report_refusal(bytes, used, held, (Device){type, index}); }
"""
PROGRAM = """
import ctypes, sys
allocator = ctypes.CDLL(sys.argv[1])
allocator.change.argtypes = [ctypes.c_long] * 4 + [ctypes.c_int] * 2
allocator.refuse.argtypes = [ctypes.c_long] * 3 + [ctypes.c_int] * 2
CPU, CUDA = 0, 1

import torch

def from_before():
    allocator.change(0x8000, -100, 0, 5000, CUDA, 0)

def parameters():
    allocator.change(0x1000, 512, 512, 5000, CUDA, 0)

def activations():
    allocator.change(0x2000, 2048, 2560, 6000, CUDA, 0)
    allocator.change(0x2000, -2048, 512, 6000, CUDA, 0)

def at_the_same_address():
    allocator.change(0x2000, 64, 576, 6000, CUDA, 0)

def on_the_other():
    allocator.change(0x1000, 1024, 1024, 1024, CUDA, 1)

def too_much():
    allocator.refuse(1 << 40, 576, 700, CUDA, 0)  # it has given its unused pieces back

def of_the_host():
    allocator.change(0x9000, 4096, 0, 0, CPU, -1)
    allocator.refuse(4096, 0, 0, CPU, -1)

for part in (from_before, parameters, activations, at_the_same_address, on_the_other, too_much, of_the_host):
    part()
allocator.change(0x2000, -64, 512, 6000, CUDA, 0)
"""


@pytest.fixture(scope="module")
def allocator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = importlib.util.find_spec("torch")
    assert torch is not None and torch.origin is not None
    target, libraries = tmp_path_factory.mktemp("allocator") / "liballocator.so", Path(torch.origin).parent / "lib"
    command = ["gcc", "-x", "c", "-shared", "-fPIC", "-O1", "-", "-o", str(target), f"-L{libraries}", "-lc10", f"-Wl,-rpath,{libraries}"]
    subprocess.run(command, input=ALLOCATOR, text=True, check=True)
    return target


def test_blocks_and_refusals_have_their_stacks(record: Recorder, allocator: Path) -> None:
    run = record(PYTHON, "-c", PROGRAM, str(allocator), options=("--gpu-memory",))
    assert run.status == 0, run.stderr
    profile = run.profile()
    first, second = sorted(profile.table("pool_blocks")["device"].unique())
    assert held(profile, "peak", first) == {"activations": 2048, "parameters": 512}
    assert held(profile, "peak", second) == {"on_the_other": 1024}
    assert held(profile, "oom", first) == {"at_the_same_address": 64, "parameters": 512}
    assert held(profile, "end", first) == {"parameters": 512}
    assert held(profile, "0s", first) == {"[unattributed: no stack]": 100}, "a block that only came back is older than the recording"
    assert profile.tree("gpu-allocated").total("gpu-allocated") == 512 + 2048 + 64 + 1024
    categories = profile.tree("gpu-bytes", by="category")
    unused = under(categories, NAMES[Category.UNUSED])
    assert (int(categories.values["gpu-bytes"][unused].sum()), categories.total("gpu-bytes")) == (6000 - 2560, 6000 + 1024)
    (refused,) = profile.table("memory_refusals").rows(named=True)
    assert (refused["memory"], refused["bytes"]) == (first, 1 << 40)
    (sentence,) = (one.sentence for one in all_findings(profile) if one.kind == "memory-refused")
    assert "too_much()" in sentence and "torch's allocator held 124 bytes in pieces" in sentence


def test_nothing_without_the_option(record: Recorder, allocator: Path) -> None:
    run = record(PYTHON, "-c", PROGRAM, str(allocator))
    assert run.status == 0, run.stderr
    assert run.profile().table("pool_blocks").is_empty()
    assert run.profile().table("memory_refusals").is_empty()


def held(profile: Profile, moment: str, memory: str) -> dict[str, int]:
    """The bytes of the function that allocated them."""
    rows = holders(Analysis.of(profile.store), Moment.parse(moment))
    return {row["function"]: row["bytes"] for row in rows.iter_rows(named=True) if row["memory"] == memory}
