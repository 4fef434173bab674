"""Functions from Tree to Tree. None changes its argument; each says what it removes, and totals stay exact unless it says so."""
