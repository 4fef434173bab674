"""The lines of source files and their CPU time."""
