"""Limits of what ``protect:`` demands besides k, one file each, in the order of the manifest; others follow by name."""

ORDER = ("distinct", "closeness", "inference", "linkage")
