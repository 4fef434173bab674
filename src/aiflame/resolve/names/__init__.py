"""Mangled names of functions as names for reading."""
