"""The table of sites, from which the report's flame graph is computed.

Each site (code, kernel, meaning) has its values and the times at which they occurred.
"""
