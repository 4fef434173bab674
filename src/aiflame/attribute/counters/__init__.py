"""What devices' hardware counters counted, divided over the kernels and copies that ran."""
