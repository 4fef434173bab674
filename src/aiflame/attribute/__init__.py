"""From the tables of a profile to trees, tables of sites and timelines: the joins, and what the time was for.

The files of this folder are what all sub-packages build on: the Tree, the forest that a tree grows from, the analysis that keeps
parts of a profile once they are worked out, and the lists of metrics and groupings.
"""
