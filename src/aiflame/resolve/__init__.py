"""Turns addresses and raw names into readable functions, files and lines."""
