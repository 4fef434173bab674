"""Gets packages that only tests need: `test_tools.py CONSTRAINTS PACKAGE...`. A package that cannot be had is named; its tests are skipped
and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Program or file that shows it is there → Debian packages that bring it.
DEBIAN = {
    "chromium": ["chromium"],
    "chromium-headless-shell": ["chromium-headless-shell"],
    "gfortran": ["gfortran"],
    "mpicc.mpich": ["mpich", "libmpich-dev"],
    "mpicc.openmpi": ["openmpi-bin", "libopenmpi-dev"],
    "/usr/include/level_zero/ze_api.h": ["libze1", "libze-dev"],
    "strace": ["strace"],
    "clinfo": ["clinfo", "pocl-opencl-icd", "ocl-icd-libopencl1"],
}
# Package → its folder beside the packages of Python.
NODE = {"speedscope@1.25.0": "speedscope"}


def main() -> None:
    constraints, *packages = sys.argv[1:]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", constraints]
    if subprocess.run([*command, *packages], stderr=subprocess.DEVNULL, check=False).returncode:
        for package in packages:
            if subprocess.run([*command, package], check=False).returncode:
                print(f"test tools: no {package} for this Python; its tests will be skipped")
    for package, folder in NODE.items():
        command = [
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(Path(sys.prefix) / folder),
            package,
        ]
        if not shutil.which("npm") or subprocess.run(command, check=False).returncode:
            print(f"test tools: no {package} without npm; its tests will be skipped")
    missing = [packages for program, packages in DEBIAN.items() if not here(program)]
    if missing and not install([package for some in missing for package in some]):
        for some in missing:  # one that a distribution lacks keeps apt-get from installing the others
            if not install(some):
                print(f"test tools: could not install {' '.join(some)}; tests that need them will be skipped")


def here(shown: str) -> bool:
    return Path(shown).is_file() if shown.startswith("/") else shutil.which(shown) is not None


def install(packages: list[str]) -> bool:
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]):
        try:
            process = subprocess.run([*prefix, *command], env=environment, stdout=subprocess.DEVNULL, check=False)
        except FileNotFoundError:
            return False
        if process.returncode:
            return False
    return True


if __name__ == "__main__":
    main()
