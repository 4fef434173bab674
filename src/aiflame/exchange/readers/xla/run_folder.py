"""Folders that JAX and TensorFlow write: `LOG/plugins/profile/TIME/HOST.xplane.pb`, with other files of the same run beside them."""

from __future__ import annotations

from pathlib import Path

_SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
_RUNS = ("plugins", "profile")


def newest_run(path: Path) -> Path:
    """The newest run in a folder of logs; any other path as it stands."""
    runs = path.joinpath(*_RUNS)
    try:
        names = [run.name for run in runs.iterdir() if run.is_dir() and not run.is_symlink() and traces(run)]
    except OSError:  # there is no such folder, or none that can be read
        return path
    return runs / max(names) if names else path


def traces(folder: Path) -> list[Path]:
    """The traces of a run, one a host. The Chrome JSON beside a trace has part of the same events once more."""
    return [file for file in folder.iterdir() if file.name.endswith(_SUFFIXES) and file.is_file() and not file.is_symlink()]
