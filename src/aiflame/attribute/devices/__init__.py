"""Kernels, copies and their samples on devices, the code that launched them, and the time when devices were idle."""
