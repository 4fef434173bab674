"""Prints lines about the work of the agent and its children, on stderr."""

from __future__ import annotations

import sys

from aiflame.errors import harmless


def tell(text: str) -> None:
    print(f"aiflame: {harmless(text)}", file=sys.stderr, flush=True)
