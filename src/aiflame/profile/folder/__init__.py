"""A profile's folder: the door that opens its files, and those files that are not tables. Standard library alone."""
