"""The spool of a recording becomes Parquet: here, in the background, or in the reader's cache."""
