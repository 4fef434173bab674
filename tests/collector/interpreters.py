"""The CPythons that are installed here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def interpreter(version: str) -> str | None:
    """An executable of that minor version: on PATH, or one that pyenv keeps."""
    candidates = [shutil.which(f"python{version}"), *map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}"))]
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        candidates.insert(0, sys.executable)
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None
