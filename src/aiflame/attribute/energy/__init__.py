"""Computes the energy that devices and CPUs took over time, and divides it over kernels and samples."""
