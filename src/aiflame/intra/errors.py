"""Why a kernel is left as it is."""

from __future__ import annotations


class Refused(Exception):
    """This kernel, or this version of Triton, cannot be instrumented: one line that says why."""
