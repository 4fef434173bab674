"""Intel's own driver, for the tests that run it on a stand-in for the kernel."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def driver() -> Any:
    module = pytest.importorskip("test_driver", reason="no stand-in for the kernel of Intel GPUs here")
    if not module.DRIVER.is_dir():
        pytest.skip("no driver of Intel's here: `make test` brings it (80 MB from Debian's unstable suite)")
    return module
