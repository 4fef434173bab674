"""Kernels of AMD's GPUs that torch's modules launch stand under their layers."""

from __future__ import annotations

import sys
from pathlib import Path

from layered import kernels_by_layers, program
from live import EVERYTHING, processes, recorded

from built import built

CODE = Path(__file__).parents[2] / "unit/data/amd/scale.gfx90a.hsaco"
PROGRAM = """
hip, code = ctypes.CDLL({hip!r}), open({code!r}, "rb").read()
names = (ctypes.c_char_p * 1)(b"scale")
ctypes.CDLL({sdk!r})._ZN4fake16load_code_objectEPKcmPKS1_m(code, ctypes.c_size_t(len(code)), names, ctypes.c_size_t(1))
scale = ctypes.c_void_p()
hip.hipModuleGetFunction(ctypes.byref(scale), None, b"scale")

def launch(nanoseconds):
    hip.hipModuleLaunchKernel(scale, *[1] * 6, nanoseconds, None, None, None)

net = Net()
net.first, net.second = [lambda: launch(100_000)] * 3, [lambda: launch(700_000)]
hip.hipInit(0)
net()
hip.hipDeviceSynchronize()
"""


def test_kernels_stand_under_the_layers_that_launched_them(tmp_path: Path) -> None:
    rocm = built("programs/rocm")
    text = PROGRAM.format(hip=str(rocm / "libamdhip64.so.9"), sdk=str(rocm / "librocprofiler-sdk.so"), code=str(CODE))
    outcome = recorded([sys.executable, program(tmp_path, text)], tmp_path / "p", features=EVERYTHING)
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(tmp_path / "p")
    assert kernels_by_layers(process) == [*[(("Net", "First"), 100_000)] * 3, (("Net", "Second"), 700_000)]
