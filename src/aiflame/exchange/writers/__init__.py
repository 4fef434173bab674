"""Writes trees in the formats of other tools; one file a format."""
