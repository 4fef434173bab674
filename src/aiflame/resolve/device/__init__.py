"""Device code as names, source lines, instructions and stall reasons: cubins, Triton's cache, names and families of kernels."""
