"""The tables of a profile and the control page: columns, the meaning of numbers, the collector's header. Standard library alone."""
