"""Addresses and raw names → what a person reads."""

from aiflame.resolve.complete import complete
from aiflame.resolve.symbols import resolve

__all__ = ["complete", "resolve"]
