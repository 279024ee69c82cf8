"""The checks of the gate, one file each, in the order of the manifest; others follow by name."""

ORDER = (
    "k_anonymity",
    "known",
    "missing_values",
    "means",
    "groups",
    "weights",
    "values",
    "distributions",
    "edits",
)
