"""Profiles: the schema, reading the spool, sealing, the sealed store.

`opening.open_profile` opens one, and seals it first if necessary. The recorder runs on the standard library alone: modules that need
Polars are imported only where they are used.
"""
