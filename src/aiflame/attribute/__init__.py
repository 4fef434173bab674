"""Turns the tables of a profile into trees, tables of sites and timelines, and finds the step, phase, layer, op and region of all work.

All sub-packages build on the files of this folder: the Tree, the forest from which a tree is built, the analysis that caches results, and
the lists of metrics and groupings.
"""
