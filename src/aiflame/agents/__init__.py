"""The tools of `aiflame mcp`: answers of limited size for agents, in which texts from a profile are marked as untrusted.

`server.py` alone imports the package `mcp`; the other files work without it.
"""
