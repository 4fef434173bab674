"""Tables of a profile for a person to sort and filter. `all.tables` is the way in."""
