"""Kernels, copies and their samples on devices, the code that launched them, and idle time of devices."""
