"""Samples of stalled instructions of Intel GPUs: the EU stall streams of Linux's xe driver, read by the recorder."""
