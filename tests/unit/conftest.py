"""Settings of all unit tests."""

import os

from hypothesis import settings

# The same examples each time: a change is not refused for what it has not touched. HYPOTHESIS_PROFILE=search looks for new ones.
# No test judges by the clock: a machine may be slow.
settings.register_profile("aiflame", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=600)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiflame"))
