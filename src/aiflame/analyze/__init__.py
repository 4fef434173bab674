"""Answers questions about a profile: pure functions from trees and tables to frames and frozen dataclasses. Nothing here draws."""
