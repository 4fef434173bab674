"""How much energy devices and CPUs took at which times, and which kernels it is counted for."""
