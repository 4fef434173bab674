"""The timeline as a Perfetto trace."""
