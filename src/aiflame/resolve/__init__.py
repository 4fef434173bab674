"""Addresses and raw names → what a person reads."""

from aiflame.resolve.symbols import resolve

__all__ = ["resolve"]
