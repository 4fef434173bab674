"""Stores of `aiflame agent`: where their files lie, and how a range of one is opened as a profile."""
