"""The demo's CUDA program without a GPU: against a driver and a compiler that check how they are called, and multiply on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiflame.demo import nvrtc
from aiflame.resolve.device.cubin import Cubin
from aiflame.resolve.device.cubin_lines import CubinLines
from built import built

KERNELS = Path(nvrtc.__file__).with_name("matmul.cu")


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of libraries, for LD_LIBRARY_PATH."""
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "libcuda.so.1").symlink_to(built("e2e/cuda_driver.so"))
    (folder / "libnvrtc.so.13").symlink_to(built("e2e/cuda_compiler.so"))
    return folder


def multiply(libraries: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aiflame.demo.matmul", "--device", "cuda", "--size", "128", "--seconds", "0"]
    surroundings = {**os.environ, "LD_LIBRARY_PATH": str(libraries), **environment}
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60, check=False)


def test_every_call_is_as_the_driver_and_the_compiler_want_it(cuda: Path) -> None:
    result = multiply(cuda)
    assert result.stderr == ""
    assert result.stdout == "1 step on a GPU of the test: each multiplied two 128 x 128 matrices in three ways\n"


def test_a_wrong_product_is_found(cuda: Path) -> None:
    result = multiply(cuda, WRONG_PRODUCT="1")
    assert result.returncode == 1
    assert "a product is wrong" in result.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"NO_DEVICE": "1"}, "cuInit failed with error 100: no device, says the test"),
        ({"DOES_NOT_COMPILE": "1"}, "nvrtcCompileProgram failed: does not compile, says the test: line 3 is wrong"),
    ],
)
def test_an_impossible_request_is_reported_in_one_line(cuda: Path, environment: dict[str, str], said: str) -> None:
    result = multiply(cuda, **environment)
    assert result.returncode == 1
    assert result.stderr.strip() == said


@pytest.fixture(scope="module")
def compiler() -> nvrtc.Nvrtc:
    """The real one."""
    try:
        return nvrtc.find((99, 0), 90)
    except nvrtc.NvrtcError as error:
        pytest.skip(str(error))


def test_a_compiler_newer_than_the_driver_is_not_taken(compiler: nvrtc.Nvrtc) -> None:
    with pytest.raises(nvrtc.NvrtcError, match=r"does not fit a device of sm_90 with a driver for CUDA 1\.0"):
        nvrtc.find((1, 0), 90)


def test_each_kernel_has_the_lines_of_its_innermost_loop(compiler: nvrtc.Nvrtc) -> None:
    cubin = Cubin(compiler.compile(KERNELS, 90))
    text = KERNELS.read_text().splitlines()
    for name, code in (("basic", "a[row * n + k] *"), ("blocked", "left[y][k] *"), ("tiled", "left[k][y * TILE + i] *")):
        function = cubin.find(f"matmul_{name}")
        assert function is not None
        chains = [CubinLines(cubin).chain(function.section, function.start + offset) for offset in range(0, function.size, 16)]
        (loop,) = (number for number, line in enumerate(text, 1) if code in line)
        assert (str(KERNELS), loop) in {(place.file.path, place.line) for chain in chains for place in chain}
