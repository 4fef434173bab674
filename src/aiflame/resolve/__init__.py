"""Addresses and raw names → what a person reads."""

from aiflame.resolve.gpu_code import add_instructions
from aiflame.resolve.symbols import resolve

__all__ = ["add_instructions", "resolve"]
