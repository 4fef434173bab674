"""Checks the JavaScript of the report and of the flame graph: types (`tsc --checkJs`, from JSDoc), then Biome's rules.

npm gets both, at the versions of scripts/web/package-lock.json, into .venv/web-tools. Without npm nothing is checked; where npm cannot get
them, the check fails.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "scripts" / "web"
TOOLS = ROOT / ".venv" / "web-tools"
WEB = ROOT / "src" / "aiflame" / "render" / "web"


def main() -> int:
    npm = shutil.which("npm")
    if not npm:
        print("lint: JavaScript was not checked: there is no npm here; install Node.js 20 or later")
        return 0
    if problem := provide(npm):
        print(f"lint: JavaScript was not checked: npm could not install the tools of scripts/web/package-lock.json: {problem}")
        return 1
    programs = TOOLS / "node_modules" / ".bin"
    types: list[str | Path] = [programs / "tsc", "--project", SETTINGS / "tsconfig.json"]
    rules: list[str | Path] = [programs / "biome", "lint", "--error-on-warnings", f"--config-path={SETTINGS}", WEB]
    return max(subprocess.run(command, cwd=ROOT, check=False).returncode for command in (types, rules))


def provide(npm: str) -> str:
    """Why npm could not install them; empty: it has. The lock is copied last: where it is there, all that it names is."""
    lock, laid = SETTINGS / "package-lock.json", TOOLS / ".lock.json"
    if laid.exists() and laid.read_bytes() == lock.read_bytes():
        return ""
    TOOLS.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SETTINGS / name, TOOLS)
    command = [npm, "ci", "--loglevel=error", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=TOOLS, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        return next(iter(result.stderr.splitlines()), f"it ended with status {result.returncode}")
    shutil.copy(lock, laid)
    return ""


if __name__ == "__main__":
    sys.exit(main())
