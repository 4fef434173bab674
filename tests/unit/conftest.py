"""Settings of all unit tests."""

from hypothesis import settings

# No test judges by the clock: a machine may be slow.
# The same examples each time: a change is not refused for what it has not touched. To look for new ones: --hypothesis-profile=search
settings.register_profile("aiflame", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=600)
settings.load_profile("aiflame")
