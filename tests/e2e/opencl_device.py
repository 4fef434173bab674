"""A fixture for tests that need OpenCL: name it in `pytest_plugins`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def opencl_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the device; a driver that compiles does so into a fresh cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCL_CACHE_DIR", str(tmp_path_factory.mktemp("pocl")))
        result = subprocess.run([sys.executable, "-m", "aiflame.demo.opencl"], capture_output=True, text=True, check=False)
        if result.returncode or not result.stdout:
            pytest.skip(f"no OpenCL device: {result.stderr.strip() or 'no driver'} (apt-get install pocl-opencl-icd ocl-icd-libopencl1)")
        yield result.stdout.splitlines()[0].partition("\t")[2]
