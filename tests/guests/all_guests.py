"""Every guest, in the order of the table."""

from __future__ import annotations

from ci_guests import CI_GUESTS

GUESTS = (*CI_GUESTS,)
