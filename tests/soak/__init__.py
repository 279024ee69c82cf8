"""A campaign of faults against the real command: see README.md."""
