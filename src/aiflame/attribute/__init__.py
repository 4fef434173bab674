"""Turns the tables of a profile into trees, tables of sites and timelines, and classifies time by step, phase, layer, op and region.

All sub-packages build on the files of this folder: the Tree, the forest that a tree grows from, the analysis that caches parts of a
profile, and the lists of metrics and groupings.
"""
