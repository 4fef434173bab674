"""Kernels against the limits of their device: the vendor's peaks, and the time that each kernel would take at them."""
