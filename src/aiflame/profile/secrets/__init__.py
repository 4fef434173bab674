"""Masks secrets in command lines before a profile keeps them. Standard library alone."""
