"""How many examples a property test draws that asks a whole profile everything: each takes tenths of a second."""

from hypothesis import settings

COSTLY = settings(max_examples=settings().max_examples // 3)
"""20 when a change is tested, 200 in a search for new ones (conftest.py)."""
