"""The inside of kernels that were recorded with `--intra`: roles of warps, overlap of copies and math, waits, the critical path."""
