"""Workers share the rewriting of tests.

pytest rewrites each `assert` of a test so that a failure shows its values, which takes longer than all else that a worker does before
its first test. Workers start together and collect the same files in the same order, so that each would rewrite most of them. Here each
rewrites a part, and finds the others' in `__pycache__`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir, try_makedirs


def rewrite_part(config: pytest.Config, files: Iterable[Path], number: int, count: int) -> None:
    """Rewrites the files of worker `number` (from 0 on) of `count`. A file with an error is left to the collection, which shows it."""
    by_size = sorted(files, key=lambda file: (-file.stat().st_size, file))
    for file in by_size[number::count]:
        cache = get_cache_dir(file)
        kept = cache / (file.stem + PYC_TAIL)
        if _read_pyc(file, kept) is None and try_makedirs(cache):
            try:
                stat, code = _rewrite_test(file, config)
            except (SyntaxError, ValueError):
                continue
            _write_pyc(config.stash[assertstate_key], code, stat, kept)


def collected_files(config: pytest.Config) -> set[Path]:
    """The files of tests that the command line names."""
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return {file for path in named for file in (path.rglob("test_*.py") if path.is_dir() else [path]) if file.is_file()}
