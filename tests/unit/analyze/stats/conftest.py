"""The tests here import files into a cache of their own."""

from __future__ import annotations

from import_cache import own_cache

__all__ = ["own_cache"]
