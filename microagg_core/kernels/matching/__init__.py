"""Pairs of records matched exactly: candidate pairs, the search for the lightest factor, and what prices leave over."""
