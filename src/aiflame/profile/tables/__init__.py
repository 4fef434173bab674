"""A sealed profile: its tables, and the Parquet files that hold them."""
