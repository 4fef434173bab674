"""Python frames as qualified names, files and lines."""
