"""Portraits: how the released columns looked before and after, in figures from which no single record can be read."""
