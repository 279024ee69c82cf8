"""Algorithms side by side on one file: what a statistician looks at before choosing."""
