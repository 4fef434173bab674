"""The records and texts of a recording's processes, those of short ones, and which processes still write."""
