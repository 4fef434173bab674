"""The error for kernels that cannot be instrumented."""

from __future__ import annotations


class Refused(Exception):
    """This kernel, or this version of Triton, cannot be instrumented; the message is one line with the reason."""
