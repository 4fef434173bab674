"""Divides the values of devices' hardware counters over the kernels and copies that ran."""
