"""How far kernels, layers, ops, steps and lines are from what their device could do."""
