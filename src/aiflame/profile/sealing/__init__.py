"""Turns the spool of a recording into Parquet: in the profile, in the background, or in the reader's cache."""
