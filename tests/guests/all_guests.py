"""Every guest, in the order of the table."""

from __future__ import annotations

from ci_guests import CI_GUESTS
from exotic_guests import EXOTIC_GUESTS

GUESTS = (*CI_GUESTS, *EXOTIC_GUESTS)
