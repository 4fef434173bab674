"""The timeline as a file that Perfetto reads."""
