"""Environment variables that packages read when they are imported, set meanwhile. Standard library alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's library for linear algebra starts a thread for each core when NumPy is imported, unless this says otherwise. We need one: our
systems of equations are small, and where a user may have few threads, as on login nodes, that import fails."""


@contextlib.contextmanager
def imported_with(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
