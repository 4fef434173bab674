"""The first screen of a profile: its programs, its duration, how busy its devices were, and how long each step took."""
