"""Reads the records and texts of a recording's processes, and finds out which processes still write."""
