"""The trees of a profile, one for each metric: `build.tree` is the way in."""
