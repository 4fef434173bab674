"""Answers for programs that reason: the tools of `aiflame mcp`, each bounded, with texts of a profile marked as untrusted.

`server.py` alone imports the package `mcp`; the other files answer without it.
"""
