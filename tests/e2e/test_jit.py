"""Code generated at run time: stacks cross it, and it has the names that its compiler wrote down."""

from __future__ import annotations

from pathlib import Path

from recording import PYTHON, Recorder, time_under

MAKER = """
import ctypes, mmap, os, struct, time
# mov ecx, edi; loop: dec ecx; jnz loop; ret - a function that only spins, without unwind tables
code = bytes.fromhex("89f9ffc975fcc3")
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with open(f"/tmp/perf-{os.getpid()}.map", "w") as names:
    names.write(f"{address:x} {len(code):x} jit_spin\\n")
spin = ctypes.CFUNCTYPE(None, ctypes.c_uint)(address)
def calls_jit():
    end = time.process_time() + 1.5
    while time.process_time() < end:
        spin(40_000_000)
calls_jit()
"""


def test_a_perf_map_names_code_and_its_callers_are_whole(record: Recorder) -> None:
    profile = record(PYTHON, "-c", MAKER).profile()
    for pid in profile.table("processes")["pid"]:
        Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    tree = profile.tree("cpu-time")
    spun = time_under(tree, "jit_spin")
    assert spun > 1e9
    assert spun / time_under(tree, "calls_jit") >= 0.95
    assert time_under(tree, "<module>", "calls_jit", "jit_spin") / spun >= 0.99
