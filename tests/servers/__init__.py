"""Servers that tests start for themselves, as processes of their own."""
