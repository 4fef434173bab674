"""The workload that `aiflame demo` records."""
