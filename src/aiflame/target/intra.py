"""With --intra: starts `aiflame.intra`, which records inside Triton kernels with the program's own Triton."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

WANTED = "AIFLAME_INTRA"
"""The variable with the arguments of `--intra`, as JSON."""

_session: Any = None


def install(compiler: Any) -> None:
    """`compiler`: triton.compiler, which has just been imported."""
    wanted = os.environ.get(WANTED)
    if wanted:
        _begin(json.loads(wanted))


def recording_began() -> None:
    """Starts again with other files, in the child of a fork or in a further recording."""
    wanted = os.environ.get(WANTED)
    if wanted and _session is not None:
        _begin(json.loads(wanted))


def _begin(wanted: dict[str, Any]) -> None:
    global _session
    ours = sys.modules["_aiflame"]
    runtime = _library("runtime")
    try:
        settings = runtime.Settings(**{name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()})
        _session = runtime.Session(settings, Path(ours.profile) / "intra", ours.note)
        _session.start()
    except Exception as error:
        ours.note(f"inside kernels: nothing is recorded: {str(error) or type(error).__name__}"[:300])


def _library(name: str) -> Any:
    """Imports `aiflame.intra` from the aiflame that records, also if the program's Python has none."""
    folder = Path(__file__).resolve().parents[1]
    if "aiflame" not in sys.modules:
        spec = importlib.util.spec_from_file_location("aiflame", folder / "__init__.py", submodule_search_locations=[str(folder)])
        if spec is None or spec.loader is None:
            raise ImportError("aiflame is not where it was")
        module = importlib.util.module_from_spec(spec)
        sys.modules["aiflame"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules["aiflame"]
            raise
    return importlib.import_module(f"aiflame.intra.{name}")
