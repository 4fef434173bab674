"""A compiler that tries variants while a layer is called: the trials are the autotuner's, and the layer takes as long as its sister."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from recording import PYTHON, UNSEALED
from torch_programs import ONE_COMPILES, needs_torch, program

from aiflame import open as open_profile
from aiflame.analyze.top import top

pytestmark = needs_torch

SECONDS = "3"
PROGRAM = """import sys
import time

import torch
from torch._inductor import config

config.max_autotune = config.freezing = True
config.max_autotune_gemm_backends = "CPP,ATEN"
torch.set_num_threads(1)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.up(x))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = torch.nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.h:
            x = layer(x)
        return x


def main() -> None:
    model = Model().eval()
    for layer in model.h:
        layer.compile()
    x = torch.randn(256, 256)
    with torch.no_grad():
        model(x)
        end = time.process_time() + float(sys.argv[1])
        while time.process_time() < end:
            model(x)


main()
"""


def test_trials_of_variants_belong_to_no_layer(tmp_path: Path) -> None:
    path = tmp_path / "p.aiflame"
    env = {**os.environ, **ONE_COMPILES, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [
        PYTHON,
        "-m",
        "aiflame.cli.main",
        "record",
        UNSEALED,
        "-o",
        str(path),
        "--",
        PYTHON,
        str(program(tmp_path, PROGRAM)),
        SECONDS,
    ]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "AUTOTUNE" in result.stderr  # it had something to choose from
    listed = top(open_profile(path).tree("cpu-time", "layer"), "layer")
    took = dict(listed.select("name", "total").rows())
    assert took["[autotuning]"] > 0
    assert took["[compiling]"] > 0
    assert took["h.0"] < 1.5 * took["h.1"]
    assert took["h.0"] + took["h.1"] < int(SECONDS) * 1e9 * 1.2
