"""Measures of information loss and disclosure risk: statistics of a block, and how to combine them."""
