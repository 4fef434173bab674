"""Findings: one sentence each about something that takes time and might be won back, with its number. `biggest.findings` is the way in."""
