"""Findings: a sentence about something that takes time which might be won back, with its number. `biggest.findings` is the way in."""
