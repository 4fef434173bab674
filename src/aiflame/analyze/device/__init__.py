"""Device work joined with its launches and its meaning: how busy devices were, why they were idle, and the stalls of warps."""
