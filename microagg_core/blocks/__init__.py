"""From counts of blocking keys to a plan of blocks: merge, split, pack."""
