"""A guest: a program that is run alone and recorded, and must not notice the difference."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
ENVIRONMENTS = Path(os.environ.get("AIFLAME_GUESTS", REPOSITORY / ".guests"))
"""Where packages for guests are installed (`scripts/guest_tools.py`), apart from those that aiflame itself runs with."""


class NotMadeError(Exception):
    """A compiler that is here lacks something."""


@dataclass(frozen=True, slots=True)
class Guest:
    name: str
    command: tuple[str, ...]
    """Words may contain `{python}` (the guests' Python), `{programs}` (our scripts) and `{made}` (the folder that `make` filled)."""
    make: tuple[tuple[str, ...], ...] = ()
    """Commands that prepare it, run once, unrecorded, in `{made}`."""
    needs: tuple[str, ...] = ()
    """Its requirements: a program (`redis-server`), a package (`import jax`), a file (`/usr/lib/x.so`), or `root`."""
    may_differ: tuple[str, ...] = ()
    """Expressions for the parts of its output that differ from run to run: times, process ids, addresses."""
    files_may_differ: tuple[str, ...] = ()
    """Patterns of files that it writes and whose contents differ from run to run."""
    environment: tuple[tuple[str, str], ...] = ()
    seconds: float = 120
    """It is ended when it takes longer."""
    sampled: int = 0
    """The least number of its processes that must have samples."""

    def missing(self) -> str:
        """Why it cannot be run here; empty: it can."""
        return next((reason for need in self.needs if (reason := _missing(need))), "")

    def prepared(self, folder: Path) -> tuple[str, ...]:
        """Its command, after it was made in the folder `made`."""
        folder.mkdir(parents=True, exist_ok=True)
        for words in self.make:
            variables = self.variables(folder)
            process = subprocess.run(_filled(words, folder), cwd=folder, env=variables, capture_output=True, text=True, check=False)
            if process.returncode:
                raise NotMadeError(f"{' '.join(words)} ended with status {process.returncode}: {process.stderr.strip().splitlines()[-1:]}")
        return _filled(self.command, folder)

    def variables(self, folder: Path) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIFLAME_", "LD_PRELOAD", "PYTEST_"))}
        path = f"{ENVIRONMENTS / 'python' / 'bin'}:{inherited.get('PATH', os.defpath)}"
        own = {
            name: word for (name, _), word in zip(self.environment, _filled([value for _, value in self.environment], folder), strict=True)
        }
        return {**inherited, "PATH": path, **own}


def python() -> str:
    """The guests' Python: with packages of their own where they are installed."""
    own = ENVIRONMENTS / "python" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _filled(words: tuple[str, ...] | list[str], folder: Path) -> tuple[str, ...]:
    places = {"{python}": python(), "{programs}": str(HERE / "programs"), "{exotic}": str(HERE / "exotic"), "{made}": str(folder)}
    filled = []
    for word in words:
        for place, value in places.items():
            word = word.replace(place, value)
        filled.append(word)
    return tuple(filled)


def _missing(need: str) -> str:
    if need == "root":
        return "" if os.geteuid() == 0 else "needs root"
    if need.startswith("import "):
        installed = subprocess.run([python(), "-c", need], capture_output=True, check=False).returncode == 0
        return "" if installed else f"no Python package {need.removeprefix('import ')}"
    if need.startswith("/"):
        return "" if Path(need).exists() else f"no file {need}"
    return (
        ""
        if shutil.which(need, path=f"{ENVIRONMENTS / 'python' / 'bin'}:{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        else f"no program {need}"
    )
