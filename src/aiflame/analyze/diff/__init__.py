"""Compares two profiles of one program step by step."""
