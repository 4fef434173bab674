"""Kernels, copies and their samples: what ran on devices, which code launched it, and when they were idle."""
