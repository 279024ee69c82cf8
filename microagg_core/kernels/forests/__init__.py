"""Trees of near records: grown, or spanning all, and cut into trees of at least k records."""
