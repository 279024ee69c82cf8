"""Plan blocks from counts of blocking keys: merge, split, pack."""
