"""Kernels, layers, ops, steps and lines against the limits of their device."""
