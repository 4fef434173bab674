"""Questions about memory: its holders at a moment, and its growth."""
