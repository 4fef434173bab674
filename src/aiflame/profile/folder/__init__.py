"""A profile's folder: the door that opens its files, and those of its files that are no tables. Standard library alone."""
