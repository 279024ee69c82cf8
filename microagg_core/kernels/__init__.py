"""Numba kernels: arrays in, arrays out; in families, of which each uses only those above it.

``machine_code`` compiles kernels and keeps what was compiled; ``tools`` are what all families use. ``scan`` makes
groups by plain scans over the records that remain, ``tree`` makes the same groups through a k-d tree that shrinks with
them, and ``forests`` makes trees of near records and cuts them. ``matching`` pairs records exactly, and ``refinement``
improves groups that there are.
"""

#: The variable that names the temporary folder which outlasts a run, where a run has one of its own.
LASTING_TMPDIR = "MICROAGG_TMPDIR"
