"""The first screen of a profile: what ran, for how long, how busy its devices were, and how long each step took."""
