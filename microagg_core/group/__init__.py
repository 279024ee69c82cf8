"""Arrays in, groups out: algorithms, their refinement, bounds and losses. Nothing here knows files."""
