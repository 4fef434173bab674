"""Attaches to a program that runs already. Standard library alone."""
