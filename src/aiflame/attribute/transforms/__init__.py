"""Functions from Tree to Tree. None changes its argument. Docstrings name the frames that are removed; totals stay exact unless they say
otherwise."""
