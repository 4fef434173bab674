"""Other tools: their files as profiles, and profiles as their files."""
