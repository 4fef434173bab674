"""Writes constraints.txt anew: `pins.py REQUIREMENT... -- TEST_PACKAGE...`. pip chooses the newest release of each package and of
all that they need, for each CPython that is installed here and that we support; nothing is installed."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from interpreters import interpreter  # noqa: E402

PINS = ROOT / "constraints.txt"
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
HEAD = "# Written by `make pins`: the releases that every `pip install` of the Makefile and of scripts/ takes.\n"


def main() -> None:
    together, alone = [half.split() for half in " ".join(sys.argv[1:]).split(" -- ")]
    pythons = {version: python for version in VERSIONS if (python := interpreter(version))}
    for version in sorted({*VERSIONS} - {*pythons}):
        print(f"pins: no CPython {version} here; packages for it alone get no pin", file=sys.stderr)
    releases = {version: resolve(python, together, alone) for version, python in pythons.items()}
    # No pins for CUDA's gigabytes, which other Pythons' builds of torch bring.
    wanted = {*releases.get(OWN, {})}.union(*(ask_pip(python, *together) for python in pythons.values()))
    pins = {name: {version: chosen[name] for version, chosen in releases.items() if name in chosen} for name in sorted(wanted)}
    PINS.write_text(HEAD + "".join(f"{line}\n" for name, pinned in pins.items() for line in lines(name, pinned)))


def resolve(python: str, together: list[str], alone: list[str]) -> dict[str, str]:
    """Package → release: those that must be there, then each test package, as scripts/test_tools.py gets them."""
    releases = ask_pip(python, *together)
    for requirement in alone:
        releases = {**ask_pip_if_there(python, requirement), **releases}
    # The Makefile has pinned these itself.
    exact = {canonical(requirement.partition("==")[0]) for requirement in alone if "==" in requirement}
    return {name: release for name, release in releases.items() if name not in exact}


@functools.cache
def ask_pip(python: str, *requirements: str) -> dict[str, str]:
    options = ["-qq", "--dry-run", "--ignore-installed", "--report", "-"]
    command = [sys.executable, "-m", "pip", "--python", python, "install", *options, *requirements]
    report = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    packages = [package["metadata"] for package in json.loads(report.stdout)["install"]]
    # A local version, as in 2.13.0+cpu, names a build of the same release.
    return {canonical(package["name"]): package["version"].partition("+")[0] for package in packages}


def ask_pip_if_there(python: str, requirement: str) -> dict[str, str]:
    try:
        return ask_pip(python, requirement)
    except subprocess.CalledProcessError:
        print(f"pins: {python} cannot have {requirement}", file=sys.stderr)
        return {}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lines(name: str, releases: dict[str, str]) -> list[str]:
    """One line where every Python takes the same release; else one for each release, with the Pythons that take it."""
    pythons = list(releases)
    starts = [at for at, python in enumerate(pythons) if at == 0 or releases[python] != releases[pythons[at - 1]]]
    if len(starts) == 1:
        return [f"{name}=={releases[pythons[0]]}"]
    written = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        bounds = [f'python_version >= "{pythons[start]}"'] if start else []
        bounds += [f'python_version < "{pythons[end]}"'] if end is not None else []
        written.append(f"{name}=={releases[pythons[start]]} ; {' and '.join(bounds)}")
    return written


if __name__ == "__main__":
    main()
