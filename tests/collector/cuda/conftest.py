"""Fixtures of several files."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("cuda_scenes")

from cuda_scenes import scene  # noqa: E402

__all__ = ["scene"]
