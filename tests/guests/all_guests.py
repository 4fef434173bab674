"""Every guest, in the order of the table."""

from __future__ import annotations

from ci_guests import CI_GUESTS
from exotic_guests import EXOTIC_GUESTS
from language_guests import LANGUAGE_GUESTS
from python_guests import PYTHON_GUESTS
from server_guests import SERVER_GUESTS

GUESTS = (*CI_GUESTS, *PYTHON_GUESTS, *SERVER_GUESTS, *LANGUAGE_GUESTS, *EXOTIC_GUESTS)
