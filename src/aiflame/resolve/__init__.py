"""Turns addresses and raw names into readable functions, files and lines."""

from aiflame.resolve.complete import complete
from aiflame.resolve.symbols import resolve

__all__ = ["complete", "resolve"]
