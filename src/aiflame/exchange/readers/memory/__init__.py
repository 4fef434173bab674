"""Readers of files about memory: the stacks that allocated it, and those that held it when most of it was in use."""
