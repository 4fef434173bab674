"""Tables of a profile for people to sort and filter. `all.tables` is the way in."""
