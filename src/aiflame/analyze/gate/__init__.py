"""Compares runs of two versions of a program: is the newer one slower, by more than thresholds and noise allow?"""
