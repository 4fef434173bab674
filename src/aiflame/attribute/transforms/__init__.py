"""Functions from Tree to Tree. None changes its argument. Docstrings name the removed frames; totals stay exact unless they say
otherwise."""
