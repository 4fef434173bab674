"""Values of devices' hardware counters, divided over the kernels and copies that ran."""
