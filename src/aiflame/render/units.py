"""Amounts as a person reads them (`analyze.amounts`). The script in the SVG file has the same rules in `web/text.js`."""

from __future__ import annotations

from aiflame.analyze.amounts import amount, share

__all__ = ["amount", "share"]
