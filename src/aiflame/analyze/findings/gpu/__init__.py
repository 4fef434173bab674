"""Causes of lost time between the host and a GPU, and on the GPU: `catalogue.py` lists them, and each subject has a file."""
