"""Reads files of other profilers into the tables of a profile; one file or folder a format."""
