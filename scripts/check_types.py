"""mypy over the package, then over each other folder of Python on its own: some of their modules have equal names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    *("scripts", "benchmarks", "examples", "tests"),
    *(f"tests/{room}" for room in ("unit", "collector", "e2e", "web", "guests", "gpu")),
)
"""`check_types.py FOLDER...` checks only those named. `tests` stands for the files in that folder; its folders follow."""

SHARED = (*(f"tests/{room}" for room in ("unit", "collector", "e2e", "web", "gpu", "gpu/programs")), "scripts", "benchmarks")
"""Where all of them import from, after themselves."""

# torch and Triton are not looked into: their decorators, classes and kernels have no types. Polars' sums have too many.
LENIENT = (
    "--allow-untyped-defs",
    "--allow-incomplete-defs",
    "--no-warn-unused-ignores",
    "--allow-subclassing-any",
    "--allow-untyped-decorators",
    "--no-warn-return-any",
    "--disable-error-code=operator",
)


def main() -> int:
    rooms = sys.argv[1:] or ["", *ROOMS]
    return max(check(room) for room in rooms)


def check(room: str) -> int:
    """No room: the package, as pyproject.toml has it."""
    if not room:
        return subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, check=False).returncode
    return max(checked_together(room, files) for files in of_different_names(sources(room)))


def of_different_names(files: list[Path]) -> list[list[Path]]:
    """mypy refuses two modules of one name, such as `conftest`: the second goes into a second run."""
    runs: list[list[Path]] = []
    for path in files:
        free = next((run for run in runs if path.stem not in {other.stem for other in run}), None)
        if free is None:
            runs.append([path])
        else:
            free.append(path)
    return runs


def checked_together(room: str, files: list[Path]) -> int:
    shared = [path.parent for one in SHARED for path in sources(one)]
    folders = dict.fromkeys([ROOT / room, *(path.parent for path in files), ROOT / "tests", *shared, ROOT / "src", ROOT / "stubs"])
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, folders))}
    cache = "--cache-dir=.mypy_cache/lenient"
    command = [sys.executable, "-m", "mypy", cache, "--no-namespace-packages", *LENIENT, *(str(path.relative_to(ROOT)) for path in files)]
    print(f"{room}: ", end="", flush=True)
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def sources(room: str) -> list[Path]:
    pattern = "*.py" if room == "tests" else "**/*.py"
    return sorted(path for path in (ROOT / room).glob(pattern) if not {"data", "programs"} & set(path.relative_to(ROOT / room).parts))


if __name__ == "__main__":
    sys.exit(main())
