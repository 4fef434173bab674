"""A recorded program for the tests of launches. Triton is imported by the tests that need it alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from intra_program import Program


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import triton

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton.knobs.cache, "dir", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> Iterator[Program]:
    """On a fake CUDA driver and a fake driver of Triton's."""
    from intra_fakes import FakeCuda
    from intra_program import Program, fake_driver

    from aiflame.intra import driver as cuda_driver

    cuda = FakeCuda()
    monkeypatch.setattr(cuda_driver, "call", cuda)
    with fake_driver() as driver:
        recorded = Program(tmp_path, cuda, driver)
        yield recorded
        if recorded.session is not None:
            recorded.session.stop(0)
