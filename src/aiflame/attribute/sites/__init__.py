"""The table that the report's flame graph is computed from.

Each site (code, kernel, meaning) has its values and the times at which they fell.
"""
