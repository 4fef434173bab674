"""Settings of all unit tests."""

from hypothesis import settings

# No test judges by the clock: a machine may be slow.
settings.register_profile("aiflame", deadline=None, max_examples=60)
settings.load_profile("aiflame")
