"""Numba kernels: arrays in, arrays out."""

#: The variable that names the temporary folder which outlasts a run, where a run has one of its own.
LASTING_TMPDIR = "MICROAGG_TMPDIR"
