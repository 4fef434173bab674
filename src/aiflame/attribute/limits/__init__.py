"""How far kernels are from what their device can do: the vendor's peaks, and the time that each kernel would take at them."""
