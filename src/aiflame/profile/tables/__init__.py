"""A sealed profile: the tables that readers ask for, and the Parquet files that they lie in."""
