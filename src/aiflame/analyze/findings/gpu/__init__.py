"""Causes of lost time between the host and a GPU, and on the GPU: `catalogue.py` is the table of them, and each subject has a file."""
