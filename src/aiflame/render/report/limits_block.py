"""The blocks `limits` of a report: the data of its page of limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from aiflame.analyze.limits.page import LimitsPage
from aiflame.render.blocks import block
from aiflame.render.report.page import harmless


def limits_block(page: LimitsPage) -> bytes:
    """All data is in the head: a few hundred rows."""
    return block(cast(Mapping[str, object], harmless(page.to_json())), {})
